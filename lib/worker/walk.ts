/** Finds what globs match below an open folder: bounded, and without following a link. */
import type { Dirent } from 'node:fs';
import { type FileHandle, opendir } from 'node:fs/promises';
import type { Glob, States } from '../blueprint/glob.ts';
import { enter, kindOf, mayDo, refusalOf, within } from './below.ts';
import { type ChildUser, isScratch } from './scratch.ts';
import { short } from './text.ts';

export interface Match {
  /** path from the folder */
  readonly path: string;
  /** null for a regular file, else what it is */
  readonly kind: string | null;
  /** the index of each glob that matches */
  readonly declared: readonly number[];
}

/** What may still be looked at; shared by all walks of an attempt. */
export interface Budget {
  entries: number;
  /** of matching, in states of a glob times characters */
  steps: number;
  /** of the paths that match */
  chars: number;
}

const MAX_ENTRIES = 100_000;
/** some two seconds */
const MAX_STEPS = 100_000_000;
const MAX_CHARS = 32_000_000;

export function newBudget(): Budget {
  return { entries: MAX_ENTRIES, steps: MAX_STEPS, chars: MAX_CHARS };
}

export interface Walk {
  /** regular files, links and special files; folders are no match */
  readonly matches: readonly Match[];
  /** folders that could not be read, with the reason */
  readonly closed: readonly string[];
  /** why the walk ended early */
  readonly cut: string | null;
}

const MAX_DEPTH = 100;
const MAX_TOLD = 20;

interface Found {
  readonly matches: Match[];
  readonly closed: string[];
  cut: string | null;
}

/** The globs that can still match in a folder, and how far each is. */
type Live = readonly (readonly [glob: DeclaredGlob, states: States])[];

export interface DeclaredGlob extends Glob {
  readonly index: number;
}

/** Walks below `root`; `user` limits it to what that user may read. */
export async function walk(
  root: FileHandle,
  globs: readonly DeclaredGlob[],
  { budget, user }: { readonly budget: Budget; readonly user: ChildUser | undefined },
): Promise<Walk> {
  const found: Found = { matches: [], closed: [], cut: null };

  const into = async (folder: FileHandle, prefix: string, live: Live, depth: number): Promise<void> => {
    if (!mayDo(user, await folder.stat({ bigint: true }), 'list')) throw denied();
    const below: { readonly name: string; readonly live: Live }[] = [];
    for await (const entry of await opendir(within(folder), { bufferSize: 256 })) {
      if (budget.entries-- <= 0) found.cut ??= `the search ended after ${MAX_ENTRIES} files and folders`;
      else if (budget.steps < 0) found.cut ??= 'the globs took too long to match; write simpler ones';
      else if (budget.chars < 0) found.cut ??= 'the paths that match are too long together';
      if (found.cut !== null) return;
      const next = take(entry, prefix, live);
      if (next.length > 0) below.push({ name: entry.name, live: next });
    }
    below.sort((a, b) => (a.name < b.name ? -1 : 1));
    for (const { name, live: next } of below) {
      if (found.cut !== null) return;
      const path = `${prefix}${name}`;
      if (depth === MAX_DEPTH) found.cut = `'${short(path, 60)}' lies below ${MAX_DEPTH} folders`;
      else await visit(folder, name, (child) => into(child, `${path}/`, next, depth + 1), path);
    }
  };

  const visit = async (
    folder: FileHandle,
    name: string,
    use: (child: FileHandle) => Promise<void>,
    path: string,
  ): Promise<void> => {
    let child: FileHandle | undefined;
    try {
      child = await enter(folder, name);
      await use(child);
    } catch (error) {
      const code = refusalOf(error);
      if (found.closed.length < MAX_TOLD)
        found.closed.push(`the folder '${short(path, 200)}' cannot be read: ${code}`);
    } finally {
      await child?.close();
    }
  };

  /** Notes a match, and tells the globs that go on below a folder. */
  const take = (entry: Dirent, prefix: string, live: Live): Live => {
    const before = stepsOf(live);
    const after = live.map(([glob, states]) => [glob, glob.afterName(states, entry.name)] as const);
    const declared = after.filter(([glob, states]) => glob.matches(states)).map(([{ index }]) => index);
    const next = after
      .map(([glob, states]) => [glob, glob.afterSlash(states)] as const)
      .filter(([, states]) => states.length > 0);
    budget.steps -= stepsOf(live) - before;
    if (entry.isDirectory()) return isScratch(entry.name) ? [] : next;
    if (declared.length === 0) return [];
    const path = `${prefix}${entry.name}`;
    budget.chars -= path.length;
    found.matches.push({ path, kind: entry.isFile() ? null : kindOf(entry), declared });
    return [];
  };

  await into(
    root,
    '',
    globs.map((glob) => [glob, glob.start] as const),
    1,
  );
  return found;
}

function stepsOf(live: Live): number {
  return live.reduce((sum, [glob]) => sum + glob.steps(), 0);
}

function denied(): Error {
  return Object.assign(new Error('not readable for the user of the child'), { code: 'EACCES' });
}
