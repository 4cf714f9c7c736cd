/** The private directory of an attempt: made 0700, filled with 0600 files, removed when the attempt settles. */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import {
  chmod,
  chown,
  cp,
  lchown,
  lstat,
  mkdir,
  open,
  readdir,
  readlink,
  rm,
  unlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { StepspawnError } from '../errors.ts';
import { removeJournalled } from './made-files.ts';
import { endTraced, startTime } from './processes.ts';

/** A user of this system, by numbers. */
export interface ChildUser {
  readonly uid: number;
  readonly gid: number;
}

export interface Scratch {
  readonly dir: string;
  readonly home: string;
  readonly tmp: string;
  /** the attempt's own empty directory, for children without a work dir */
  readonly work: string;
  /** path of a private file; nothing is created */
  readonly file: (name: string) => string;
  readonly write: (name: string, content: string | Uint8Array) => Promise<string>;
  /** Gives what the child needs to the user it runs as; the rest stays ours. */
  readonly giveTo: (user: ChildUser) => Promise<void>;
  /** what has to be done before it is removed */
  readonly atEnd: (work: () => Promise<unknown>) => void;
  readonly remove: () => Promise<void>;
}

/** This process's own place on the scratch disk; everything below it is private (0700). */
export interface ScratchRoot {
  readonly dir: string;
  /**
   * Makes the directory of one attempt. `mark` is noted in it, so that a later process can end what is left
   * running when we are killed. Throws StoreUnavailable when the disk is full.
   */
  readonly make: (mark: string) => Promise<Scratch>;
  /** Removes what processes that are gone left here, and ends what they left running. */
  readonly sweep: () => Promise<void>;
  readonly close: () => Promise<void>;
}

/** what an attempt's directory has from the beginning */
const FOLDERS = ['home', 'tmp', 'work'];
const UNTOUCHED = 'untouched-';
/** of them that are kept */
const MOST_UNTOUCHED = 32;
const PREFIX = 'stepspawn-';
/** what an attempt made outside */
export const JOURNAL = 'made.ndjson';

/** Whether a folder of that name is the scratch of a process. */
export function isScratch(name: string): boolean {
  return name.startsWith(PREFIX) && /^\d+-\d+-\w+-[0-9a-f]{12}$/.test(name.slice(PREFIX.length));
}
/** of files that are written at once */
const SMALL = 64 * 1024;
/** of files whose removal takes its time */
const LARGE = 1024 * 1024;

/**
 * Opens this process's scratch below `root`, after removing the scratch of processes that are gone and ending
 * what those left running. `homeSeed` names a folder whose content is copied into every attempt's HOME.
 */
export async function openScratch(options: {
  readonly root: string;
  readonly homeSeed?: string | undefined;
}): Promise<ScratchRoot> {
  await sweep(options.root);
  const dir = join(options.root, `${PREFIX}${owner(process.pid)}-${randomBytes(6).toString('hex')}`);
  await mkdir(dir, { mode: 0o700 }).catch((error) => {
    throw placeError(error, `the scratch folder ${options.root} cannot be used`);
  });
  if (options.homeSeed !== undefined) {
    await readdir(options.homeSeed).catch((error) => {
      throw placeError(error, `the seed of HOME ${options.homeSeed} cannot be read`);
    });
  }
  let made = 0;
  const untouched: Untouched[] = [];
  const keep = (found: Omit<Untouched, 'path'>, from: string): void => {
    const path = join(dir, `${UNTOUCHED}${made++}`);
    renameSync(from, path);
    untouched.push({ ...found, path });
  };
  const make = async (mark: string): Promise<Scratch> => {
    const path = join(dir, `a${(made++).toString(36)}`);
    const { stamps } = moveTo(path, untouched.pop()) ?? makeFolders(path);
    const scratch = scratchAt(path, (given) => {
      if (given || options.homeSeed !== undefined || untouched.length >= MOST_UNTOUCHED) return false;
      if (!isUntouched(path, stamps)) return false;
      keep({ stamps }, path);
      return true;
    });
    try {
      symlinkSync(mark, scratch.file('mark'));
      if (options.homeSeed)
        await cp(options.homeSeed, scratch.home, { recursive: true, verbatimSymlinks: true });
      return scratch;
    } catch (error) {
      await scratch.remove().catch(() => undefined);
      throw diskError(error, scratch.dir);
    }
  };
  return { dir, make, sweep: () => sweep(options.root), close: () => removeTree(dir) };
}

/** A directory in which a child changed nothing is as good as a new one, and making and removing folders is slow. */
interface Untouched {
  readonly path: string;
  readonly stamps: readonly string[];
}

function makeFolders(path: string): Pick<Untouched, 'stamps'> {
  try {
    for (const each of [path, ...FOLDERS.map((name) => join(path, name))]) mkdirSync(each, { mode: 0o700 });
    return { stamps: stampsOf(path) };
  } catch (error) {
    throw diskError(error, path);
  }
}

function moveTo(path: string, from: Untouched | undefined): Untouched | undefined {
  try {
    if (from) renameSync(from.path, path);
    return from;
  } catch {
    return undefined;
  }
}

/** Whether only what was made is there, as it was made; all else has been removed. */
function isUntouched(path: string, stamps: readonly string[]): boolean {
  const names = readdirSync(path);
  return (
    names.length === FOLDERS.length &&
    (lstatSync(path).mode & 0o7777) === 0o700 &&
    stampsOf(path).every((stamp, i) => stamp === stamps[i]) &&
    FOLDERS.every((name) => readdirSync(join(path, name)).length === 0)
  );
}

/** What changes with every change of a folder or its rights. */
function stampsOf(path: string): string[] {
  return FOLDERS.map((name) => {
    const { ino, mode, uid, gid, ctimeNs } = lstatSync(join(path, name), { bigint: true });
    return [ino, mode, uid, gid, ctimeNs].join();
  });
}

/** `keep` takes the directory away when it can be used again, unless it was given to another user. */
function scratchAt(dir: string, keep: (given: boolean) => boolean): Scratch {
  const last: (() => Promise<unknown>)[] = [];
  let given = false;
  return {
    dir,
    home: join(dir, 'home'),
    tmp: join(dir, 'tmp'),
    work: join(dir, 'work'),
    file: (name) => join(dir, name),
    write: (name, content) => writePrivate(join(dir, name), content),
    giveTo: (user) => {
      given = true;
      return giveTo(dir, user);
    },
    atEnd: (work) => void last.push(work),
    remove: async () => {
      for (const work of last.splice(0).reverse()) await work().catch(() => undefined);
      if (!((await removeFiles(dir)) && keep(given))) await removeTree(dir);
    },
  };
}

async function sweep(root: string): Promise<void> {
  const stale = (await readdir(root).catch(() => [])).filter(isStale);
  await Promise.all(
    stale.map(async (name) => {
      const path = join(root, name);
      const found = await lstat(path).catch(() => undefined);
      if (!found?.isDirectory() || found.uid !== process.getuid?.()) return;
      for (const attempt of await readdir(path).catch(() => [])) {
        const mark = await readlink(join(path, attempt, 'mark')).catch(() => '');
        if (mark !== '') endTraced({ mark, dir: join(path, attempt) });
        await removeJournalled(join(path, attempt, JOURNAL)).catch(() => undefined);
      }
      await removeTree(path).catch(() => undefined);
    }),
  );
}

/** Made by a process of our pid namespace that is no longer there. */
function isStale(name: string): boolean {
  if (!name.startsWith(PREFIX)) return false;
  const [namespace, pid] = name.slice(PREFIX.length).split('-');
  return namespace === pidNamespace() && !name.startsWith(`${PREFIX}${owner(Number(pid))}-`);
}

/** A full disk is a retryable condition of the place we run in; anything else is our fault and passes through. */
export function diskError(error: unknown, path: string): unknown {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return error;
  return new StepspawnError('StoreUnavailable', `no space left on the scratch disk while writing ${path}`, {
    cause: error,
  });
}

/** A folder of the operator's that cannot be used. */
function placeError(error: unknown, what: string): StepspawnError {
  const code = error instanceof Error && 'code' in error ? error.code : String(error);
  return new StepspawnError('StoreUnavailable', `${what}: ${code}`, { cause: error });
}

const PRIVATE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

async function writePrivate(path: string, content: string | Uint8Array): Promise<string> {
  if (content.length <= SMALL) {
    writeSmall(path, content);
    return path;
  }
  const file = await open(path, PRIVATE, 0o600);
  try {
    await writeFile(file, content);
  } catch (error) {
    throw diskError(error, path);
  } finally {
    await file.close();
  }
  return path;
}

/** At once: a trip through the thread pool takes longer than writing as little as this. */
function writeSmall(path: string, content: string | Uint8Array): void {
  try {
    const bytes = Buffer.from(content);
    const fd = openSync(path, PRIVATE, 0o600);
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw diskError(error, path);
  }
}

/** `<pid namespace>-<pid>-<start time>`: names one process of this boot. */
function owner(pid: number): string {
  return `${pidNamespace()}-${pid}-${startTime(pid) ?? 'gone'}`;
}

function pidNamespace(): string {
  try {
    return readlinkSync('/proc/self/ns/pid').replace(/\D/g, '');
  } catch {
    return '0';
  }
}

/** Files and folders that the child opens by path; the folders above them may be passed, not listed. */
const CHILDS = ['home', 'tmp', 'work', 'stdout', 'stderr.fifo', 'system.md', 'payload.json'];

async function giveTo(dir: string, { uid, gid }: ChildUser): Promise<void> {
  await Promise.all([chmod(dirname(dir), 0o711), chmod(dir, 0o711)]);
  const there = new Set(await readdir(dir));
  await Promise.all(CHILDS.filter((name) => there.has(name)).map((name) => chown(join(dir, name), uid, gid)));
  for (const entry of await readdir(join(dir, 'home'), { recursive: true, withFileTypes: true })) {
    await lchown(join(entry.parentPath, entry.name), uid, gid);
  }
}

/** Removes what lies beside the folders, at once but for large files; false when that was not to be done. */
async function removeFiles(dir: string): Promise<boolean> {
  try {
    for (const name of readdirSync(dir)) {
      const path = join(dir, name);
      if (FOLDERS.includes(name)) continue;
      if (lstatSync(path).size <= LARGE) unlinkSync(path);
      else await unlink(path);
    }
    return true;
  } catch {
    return false;
  }
}

async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    await openUp(path);
    await rm(path, { recursive: true, force: true, maxRetries: 3 });
  }
}

/** Gives us back the right to enter directories that the child closed. */
async function openUp(path: string): Promise<void> {
  await chmod(path, 0o700);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(join(path, entry.name));
  }
}
