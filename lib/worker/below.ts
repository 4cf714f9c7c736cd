/**
 * Files and folders below an open folder, reached name by name: no link is followed on the way, and nothing that
 * others do to the path meanwhile leads elsewhere. Node has no openat, so a name is reached through /proc.
 */
import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

export function openFolder(path: string): Promise<FileHandle> {
  return open(path, O_RDONLY | O_DIRECTORY);
}

/** The path of a name in an open folder, or of the folder itself, while it is open. */
export function within(folder: FileHandle, name?: string): string {
  return `/proc/self/fd/${folder.fd}${name === undefined ? '' : `/${name}`}`;
}

/** Opens a folder in an open folder; the caller closes it. Throws where it is a link or no folder. */
export function enter(folder: FileHandle, name: string): Promise<FileHandle> {
  return open(within(folder, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
}

/** Opens what has that name for reading: a link is an error, and a pipe that nobody writes to does not hold us. */
export function openFile(folder: FileHandle, name: string): Promise<FileHandle> {
  return open(within(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
}

/** What has that name in the folder, links not followed; undefined where nothing has. */
export async function look(folder: FileHandle, name: string): Promise<BigIntStats | undefined> {
  try {
    return await lstat(within(folder, name), { bigint: true });
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Calls `use` with the folder that the names lead to. */
export async function inFolder<T>(
  root: FileHandle,
  names: readonly string[],
  use: (folder: FileHandle) => Promise<T>,
): Promise<T> {
  let folder = root;
  try {
    for (const name of names) {
      const next = await enter(folder, name);
      if (folder !== root) await folder.close();
      folder = next;
    }
    return await use(folder);
  } finally {
    if (folder !== root) await folder.close();
  }
}

/** Names one file or folder for good: a later one that gets the same number was born later. */
export function identityOf({ dev, ino, birthtimeNs }: BigIntStats): string {
  return `${dev}:${ino}:${birthtimeNs}`;
}

/** Whether another user may read, list or add to it by its mode; without one the system decides. */
export function mayDo(
  user: { readonly uid: number; readonly gid: number } | undefined,
  { uid, gid, mode }: BigIntStats,
  rights: keyof typeof RIGHTS,
): boolean {
  if (user === undefined || user.uid === 0) return true;
  const shift = BigInt(user.uid) === uid ? 6n : BigInt(user.gid) === gid ? 3n : 0n;
  return ((mode >> shift) & RIGHTS[rights]) === RIGHTS[rights];
}
const RIGHTS = { read: 4n, list: 5n, add: 3n } as const;

/** What it is, for a message. */
export function kindOf(found: {
  readonly isFile: () => boolean;
  readonly isSymbolicLink: () => boolean;
  readonly isDirectory: () => boolean;
  readonly isFIFO: () => boolean;
  readonly isSocket: () => boolean;
}): string {
  if (found.isFile()) return 'a file';
  if (found.isSymbolicLink()) return 'a symlink';
  if (found.isDirectory()) return 'a folder';
  if (found.isFIFO()) return 'a named pipe';
  return found.isSocket() ? 'a socket' : 'a device';
}

/** What a file or folder can be refused for; anything else is a condition of ours. */
const REFUSALS: ReadonlySet<string> = new Set([
  ...['EACCES', 'EEXIST', 'EISDIR', 'ELOOP', 'ENAMETOOLONG', 'ENODEV', 'ENOENT', 'ENOTDIR', 'ENXIO'],
  ...['EPERM', 'EROFS', 'ESTALE', 'ETXTBSY'],
]);

/** The code of an error that is about a file or folder; throws any other again, such as too many open files. */
export function refusalOf(error: unknown): string {
  const code = codeOf(error);
  if (!REFUSALS.has(code)) throw error;
  return code;
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}
