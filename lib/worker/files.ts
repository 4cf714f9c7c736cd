/** Writes the files that a template declares before its child starts: over nothing of others, and through no link. */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, readdir, unlink } from 'node:fs/promises';
import type { Problem } from '../blueprint/check-text.ts';
import { type Place, placed } from '../blueprint/places.ts';
import { type Issue, StepspawnError } from '../errors.ts';
import { enter, identityOf, kindOf, look, mayDo, openFile, refusalOf, within } from './below.ts';
import { inTurn, type MadeFiles } from './made-files.ts';
import type { Places } from './places.ts';
import { type ChildUser, diskError } from './scratch.ts';

export interface FilesOrder {
  /** path -> content */
  readonly files: Readonly<Record<string, string>>;
  readonly places: Places;
  /** where a path is declared, as a JSON Pointer */
  readonly origin: (path: string) => string;
  /** the user that they shall belong to, who must be able to make them; ours when absent */
  readonly user?: ChildUser | undefined;
  /** keeps track of what is made below a directory of others; null where that is our own */
  readonly made: MadeFiles | null;
}

/**
 * Writes each file, 0600, with the folders that it needs, 0700. Throws SpawnFailed with one issue per file that cannot
 * be written, and StoreUnavailable when the disk is full; what was made until then is the caller's to remove.
 */
export async function writeFiles(order: FilesOrder): Promise<void> {
  const issues: Issue[] = [];
  await inTurn(async () => {
    for (const [path, content] of Object.entries(order.files)) {
      const problem = await writeOne(path, content, order);
      if (!problem) continue;
      const message = `file '${path}' below ${order.places[placed(path).place].label}: ${problem.message}`;
      issues.push({ code: problem.code, path: order.origin(path), message, severity: 'error' });
    }
  });
  if (issues.length === 0) return;
  const text = issues.map(({ message }) => message).join('; ');
  throw new StepspawnError('SpawnFailed', `spawn failed: ${text}`, { issues });
}

/** Where the start itself tells that the directory is not there. */
const TOLD_BY_START: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'ERR_INVALID_ARG_VALUE']);

async function writeOne(path: string, content: string, order: FilesOrder): Promise<Problem | undefined> {
  const { place, rest } = placed(path);
  const { folder: root, code, isOwn } = order.places[place];
  if (!root) return TOLD_BY_START.has(code) ? undefined : cannot('the directory cannot be read', code);
  const target: Target = {
    place,
    user: order.user,
    foreign: isOwn ? undefined : order.user,
    made: place === 'work' ? order.made : null,
  };
  const names = rest.split('/');
  const opened: FileHandle[] = [];
  try {
    let folder = root;
    for (let depth = 1; depth < names.length; depth++) {
      const next = await enterOrMake(folder, names.slice(0, depth), target);
      if ('code' in next) return next;
      opened.push(next.folder);
      folder = next.folder;
    }
    return await writeInto(folder, names, Buffer.from(content), target);
  } catch (error) {
    const disk = diskError(error, path);
    if (disk instanceof StepspawnError) throw disk;
    return cannot('it cannot be written', refusalOf(error));
  } finally {
    await Promise.all(opened.map((folder) => folder.close()));
  }
}

interface Target {
  readonly place: Place;
  readonly user: ChildUser | undefined;
  /** the user whose rights in folders of others decide, where they are not ours */
  readonly foreign: ChildUser | undefined;
  readonly made: MadeFiles | null;
}

function cannot(what: string, code: string): Problem {
  return { code, message: `${what}: ${code}` };
}

/** The folder of the last name, made where it is not there. */
async function enterOrMake(
  folder: FileHandle,
  names: readonly string[],
  target: Target,
): Promise<{ readonly folder: FileHandle } | Problem> {
  const name = names.at(-1) ?? '';
  const found = await look(folder, name);
  if (found && !found.isDirectory()) return inTheWay(names, kindOf(found), 'a folder is needed');
  if (!found) {
    const denied = await denial(folder, target);
    if (denied) return denied;
    target.made?.intend(names, 'folder');
    await mkdir(within(folder, name), { mode: 0o700 });
  }
  const entered = await enter(folder, name);
  const id = identityOf(await entered.stat({ bigint: true }));
  if (found) target.made?.share(names, 'folder', id);
  else {
    target.made?.add(names, 'folder', id);
    // one that holds something is not the one that we made
    if (target.user && (await readdir(within(entered))).length === 0)
      await entered.chown(target.user.uid, target.user.gid);
  }
  return { folder: entered };
}

async function writeInto(
  folder: FileHandle,
  names: readonly string[],
  content: Buffer,
  target: Target,
): Promise<Problem | undefined> {
  const name = names.at(-1) ?? '';
  const found = await look(folder, name);
  if (found && !found.isFile()) return inTheWay(names, kindOf(found), 'a file is to be written');
  if (found && target.place === 'work') return acceptSame(folder, names, content, target);
  // what HOME was seeded with
  if (found) await unlink(within(folder, name));
  const denied = await denial(folder, target);
  if (denied) return denied;
  target.made?.intend(names, 'file');
  const file = await open(within(folder, name), NEW_FILE, 0o600);
  try {
    target.made?.add(names, 'file', identityOf(await file.stat({ bigint: true })));
    await file.writeFile(content);
    if (target.user) await file.chown(target.user.uid, target.user.gid);
    return undefined;
  } finally {
    await file.close();
  }
}
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** A file of the same bytes does; any other stays as it is. */
async function acceptSame(
  folder: FileHandle,
  names: readonly string[],
  content: Buffer,
  { foreign, made }: Target,
): Promise<Problem | undefined> {
  const file = await openFile(folder, names.at(-1) ?? '');
  try {
    const found = await file.stat({ bigint: true });
    if (!mayDo(foreign, found, 'read')) return cannot('it exists and cannot be read', 'EACCES');
    if (found.size === BigInt(content.length) && (await file.readFile()).equals(content)) {
      made?.share(names, 'file', identityOf(found));
      return undefined;
    }
    const message = `it exists with other content (${found.size} bytes, the template's has ${content.length}) and is not overwritten; remove it, or choose another path, such as one below ~/`;
    return { code: 'file_exists', message };
  } finally {
    await file.close();
  }
}

function inTheWay(names: readonly string[], kind: string, need: string): Problem {
  const message = `'${names.join('/')}' is ${kind}, and ${need}; remove it, or choose another path`;
  return { code: kind === 'a symlink' ? 'symlink' : 'file_exists', message };
}

/** Why nothing can be made in the folder by the user that the child runs as. */
async function denial(folder: FileHandle, { foreign }: Target): Promise<Problem | undefined> {
  if (mayDo(foreign, await folder.stat({ bigint: true }), 'add')) return undefined;
  return cannot(`the user ${foreign?.uid} of the child cannot write there`, 'EACCES');
}
