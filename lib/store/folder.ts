/**
 * The store as a folder. A write goes to a temporary file and is then linked to its name: seen whole or not at
 * all, and by one writer only. A replaced object keeps its earlier versions beside it (`name`, `name~2`, …), so
 * that replacing is a create too and needs no lock.
 */
import { randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, link, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
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
  const place = async (
    path: string,
    fill: (temporary: string) => Promise<void>,
    put: typeof link,
  ): Promise<boolean> => {
    const temporary = join(root, 'tmp', randomBytes(12).toString('hex'));
    try {
      await makeFolders(dirname(temporary));
      await fill(temporary);
      await put(temporary, path).catch(async (error) => {
        if (codeOf(error) !== 'ENOENT') throw error;
        await makeFolders(dirname(path));
        await put(temporary, path);
      });
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw unavailable(error, root);
    } finally {
      await rm(temporary, { force: true }).catch(() => undefined);
    }
  };
  const linkNew = (path: string, body: string | Uint8Array): Promise<boolean> =>
    place(path, (temporary) => writeDurably(temporary, body), link);

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
    create: async (key, body) => linkNew(at(key), body),
    replace: async (key, body, version) => linkNew(versioned(at(key), Number(version) + 1), body),
    upload: async (key, content) => {
      await place(at(key), (temporary) => writeDurably(temporary, content()), rename);
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

/** Makes a folder and those above it. Node's own way never ends where the kernel takes no new folder, as in /proc. */
async function makeFolders(path: string): Promise<void> {
  const isThere = (): Promise<boolean> =>
    mkdir(path, { mode: 0o700 }).then(
      () => true,
      (error: unknown) => {
        if (codeOf(error) === 'EEXIST') return true;
        if (codeOf(error) === 'ENOENT') return false;
        throw error;
      },
    );
  if (await isThere()) return;
  await makeFolders(dirname(path));
  if (!(await isThere())) throw new Error(`no folder can be made at ${path}`);
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

async function writeDurably(
  path: string,
  body: string | Uint8Array | AsyncIterable<Uint8Array>,
): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(body);
    await file.datasync();
  } finally {
    await file.close();
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
