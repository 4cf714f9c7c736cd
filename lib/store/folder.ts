/**
 * The store as a folder. A write goes to a temporary file and is then linked to its name: seen whole or not at
 * all, and by one writer only. A replaced object keeps its earlier versions beside it (`name`, `name~2`, …), so
 * that replacing is a create too and needs no lock.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  fdatasync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  unlinkSync,
  write as writeLater,
  writeSync,
} from 'node:fs';
import { access, open, readdir, readFile } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { StepspawnError } from '../errors.ts';
import { compareUtf8 } from '../json.ts';
import type { ObjectStore } from './object-store.ts';

/** Opens the store at an absolute folder path; the folder is made when first written to. */
export function folderStore(folder: string): ObjectStore {
  const root = resolve(folder);
  const at = (key: string): string => {
    const path = join(root, key);
    if (!path.startsWith(root + sep))
      throw new StepspawnError('StoreUnavailable', `key ${key} lies outside the store`);
    return path;
  };
  /** Whether it is there now: false where `put` finds the name taken. What is small is written without the thread pool. */
  const place = async (
    path: string,
    content: string | Uint8Array | AsyncIterable<Uint8Array>,
    put: (from: string, to: string) => void,
  ): Promise<boolean> => {
    const temporary = join(root, 'tmp', randomBytes(12).toString('hex'));
    let file: number | undefined;
    try {
      file = inFolder(temporary, () => openSync(temporary, 'wx', 0o600));
      if (typeof content === 'string' || content instanceof Uint8Array) await writeAll(file, content);
      else await writeChunks(file, content);
      await datasync(file);
      inFolder(path, () => put(temporary, path));
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw unavailable(error, root);
    } finally {
      if (file !== undefined) closeSync(file);
      discard(temporary);
    }
  };

  /** Gives a file its name here too, without copying it; false where it is not ours alone, or lies on another disk. */
  const takeOver = async (file: string, path: string): Promise<boolean> => {
    const temporary = join(root, 'tmp', randomBytes(12).toString('hex'));
    try {
      inFolder(temporary, () => linkSync(file, temporary));
      const found = lstatSync(temporary);
      const isOwn = found.isFile() && found.uid === process.geteuid?.() && (found.mode & 0o7777) === 0o600;
      // a third name would be one by which it could be changed
      if (!isOwn || found.nlink !== 2) return false;
      const opened = openSync(temporary, 'r');
      try {
        await datasync(opened);
      } finally {
        closeSync(opened);
      }
      inFolder(path, () => renameSync(temporary, path));
      return true;
    } catch {
      return false;
    } finally {
      discard(temporary);
    }
  };

  return {
    url: `file://${root}`,
    read: async (key) => {
      try {
        const path = at(key);
        let body = await readFile(path);
        let version = 1;
        for (let next = 2; await exists(versioned(path, next)); next++) {
          body = await readFile(versioned(path, next));
          version = next;
        }
        return { body, version: String(version) };
      } catch (error) {
        if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return null;
        throw unavailable(error, root);
      }
    },
    create: async (key, body) => place(at(key), body, linkSync),
    replace: async (key, body, version) => place(versioned(at(key), Number(version) + 1), body, linkSync),
    upload: async (key, content, file = null) => {
      if (file === null || !(await takeOver(file, at(key)))) await place(at(key), content(), renameSync);
    },
    open: async (key) => {
      try {
        const file = await open(at(key), 'r');
        return createReadStream('', { fd: file, autoClose: true });
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return null;
        throw unavailable(error, root);
      }
    },
    list: async (prefix) => {
      try {
        const entries = await readdir(at(prefix), { recursive: true, withFileTypes: true });
        return entries
          .filter((entry) => entry.isFile() && !entry.name.includes('~'))
          .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
          .sort(compareUtf8);
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return [];
        throw unavailable(error, root);
      }
    },
  };
}

function versioned(path: string, version: number): string {
  return version === 1 ? path : `${path}~${version}`;
}

function discard(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // not made, renamed, or left in tmp/, where nothing is looked for
  }
}

/** Does it again with the folder made, where that was missing. */
function inFolder<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    makeFolders(dirname(path));
    return work();
  }
}

/** Makes a folder and those above it. Node's own way never ends where the kernel takes no new folder, as in /proc. */
function makeFolders(path: string): void {
  if (makeFolder(path)) return;
  makeFolders(dirname(path));
  if (!makeFolder(path)) throw new Error(`no folder can be made at ${path}`);
}

/** False when the folder above is missing. */
function makeFolder(path: string): boolean {
  try {
    mkdirSync(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return true;
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

const datasync = promisify(fdatasync);
const write = promisify(writeLater);
const SMALL = 64 * 1024;

async function writeAll(file: number, content: string | Uint8Array): Promise<void> {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  for (let at = 0; at < bytes.length; ) {
    at += bytes.length <= SMALL ? writeSync(file, bytes, at) : (await write(file, bytes, at)).bytesWritten;
  }
}

/** Writes each chunk while the next is made. */
async function writeChunks(file: number, chunks: AsyncIterable<Uint8Array>): Promise<void> {
  let writing = Promise.resolve();
  try {
    for await (const chunk of chunks) {
      await writing;
      writing = writeAll(file, chunk);
      // what is made meanwhile may fail first
      writing.catch(() => undefined);
    }
    await writing;
  } finally {
    await writing.catch(() => undefined);
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

function unavailable(error: unknown, root: string): unknown {
  if (error instanceof StepspawnError) return error;
  const code = codeOf(error);
  const why = code === 'ENOSPC' || code === 'EDQUOT' ? 'no space left' : code || String(error);
  return new StepspawnError('StoreUnavailable', `the store folder ${root} cannot be used: ${why}`, {
    cause: error,
  });
}
