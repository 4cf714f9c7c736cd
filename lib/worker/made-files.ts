/**
 * What was made below a directory of others for one attempt, and its removal: by the attempt, or by the next process
 * when we are killed. Only what is still the same file or folder is removed, and a folder only when it is empty.
 */
import { appendFileSync } from 'node:fs';
import { type FileHandle, readFile, readlink, rmdir, unlink } from 'node:fs/promises';
import { codeOf, identityOf, inFolder, look, openFolder, within } from './below.ts';

interface Made {
  /** names from the root */
  readonly names: readonly string[];
  readonly kind: 'file' | 'folder';
  /** absent: about to be made */
  readonly id?: string;
}

export interface MadeFiles {
  /** Notes what is about to be made, so that it can be told from what was there. */
  readonly intend: (names: readonly string[], kind: Made['kind']) => void;
  readonly add: (names: readonly string[], kind: Made['kind'], id: string) => void;
  /** Takes part in what another attempt of this process made: the last one removes it. */
  readonly share: (names: readonly string[], kind: Made['kind'], id: string) => void;
  /** Removes what is ours; the paths that could not be removed. Later calls do nothing. */
  readonly remove: () => Promise<readonly string[]>;
}

/** How many attempts of this process need a file or folder that one of them made. */
const holders = new Map<string, number>();

/** Keeps track of what is made below `root`; `journal` is the file that a later process finds it in. */
export async function trackMade(root: FileHandle, journal: string): Promise<MadeFiles> {
  const made: (Made & { readonly id: string })[] = [];
  const path = await readlink(within(root));
  const write = (line: object): void => appendFileSync(journal, `${JSON.stringify(line)}\n`, { mode: 0o600 });
  const add: MadeFiles['add'] = (names, kind, id) => {
    holders.set(id, (holders.get(id) ?? 0) + 1);
    made.push({ names, kind, id });
    write({ names, kind, id });
  };
  let isFirst = true;
  return {
    intend: (names, kind) => {
      if (isFirst) write({ root: path });
      isFirst = false;
      write({ names, kind });
    },
    add,
    share: (names, kind, id) => {
      if (holders.has(id)) add(names, kind, id);
    },
    remove: () => inTurn(() => removeAll(root, made.splice(0).reverse().filter(isLastHolder))),
  };
}

function isLastHolder({ id }: { readonly id: string }): boolean {
  const others = (holders.get(id) ?? 1) - 1;
  if (others > 0) holders.set(id, others);
  else holders.delete(id);
  return others === 0;
}

async function removeAll(root: FileHandle, made: readonly Made[]): Promise<string[]> {
  const left: string[] = [];
  for (const one of made) {
    try {
      await removeOne(root, one);
    } catch (error) {
      if (!GONE_OR_USED.has(codeOf(error))) left.push(`${one.names.join('/')}: ${codeOf(error)}`);
    }
  }
  return left;
}
/** a link or a file has taken the place of a folder, or a folder holds more than we made */
const GONE_OR_USED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENOTEMPTY', 'EEXIST']);

function removeOne(root: FileHandle, { names, kind, id }: Made): Promise<void> {
  const name = names.at(-1) ?? '';
  return inFolder(root, names.slice(0, -1), async (folder) => {
    const found = await look(folder, name);
    if (!found || (id !== undefined && identityOf(found) !== id)) return;
    if (kind === 'folder') await rmdir(within(folder, name));
    // one that was about to be made had no content yet
    else if (found.isFile() && (id !== undefined || found.size === 0n)) await unlink(within(folder, name));
  });
}

/** Removes what an attempt of a process that is gone had made, as its journal tells. */
export async function removeJournalled(journal: string): Promise<void> {
  const text = await readFile(journal, 'utf8').catch(() => '');
  // the last line may be cut off
  const [first, ...rest] = text.split('\n').slice(0, -1);
  if (first === undefined) return;
  const { root } = JSON.parse(first) as { root: string };
  const made = rest.map((line) => JSON.parse(line) as Made).reverse();
  const known = new Set(made.filter(({ id }) => id !== undefined).map(({ names }) => names.join('/')));
  const folder = await openFolder(root).catch(() => undefined);
  if (!folder) return;
  try {
    await inTurn(() =>
      removeAll(
        folder,
        made.filter(({ id, names }) => id !== undefined || !known.has(names.join('/'))),
      ),
    );
  } finally {
    await folder.close();
  }
}

let last: Promise<unknown> = Promise.resolve();

/** One after the other: attempts of one process that make or remove the same files do not meet half-way. */
export function inTurn<T>(work: () => Promise<T>): Promise<T> {
  const done = last.then(work);
  last = done.catch(() => undefined);
  return done;
}
