import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { folderStore } from '../../lib/store/folder.ts';
import { openStore } from '../../lib/store/open.ts';
import { temporaryFolder } from '../support/ports.ts';
import { storeContract } from './contract.ts';

const folder = temporaryFolder();
const fresh = (): string => mkdtempSync(join(folder, 'store-'));

describe('the folder store', () => {
  storeContract(async () => folderStore(fresh()), folder);

  test('is opened by its URL, and says what it does not know', () => {
    expect(openStore(`file://${folder}`).url).toBe(`file://${folder}`);
    expect(() => openStore('ftp://x')).toThrow(/store URL 'ftp:\/\/x' is not supported/);
    expect(() => openStore('nonsense')).toThrow(/store URL 'nonsense'/);
  });

  test('keeps keys inside the folder', async () => {
    await expect(folderStore(fresh()).create('../x', 'y')).rejects.toMatchObject({
      code: 'StoreUnavailable',
    });
  });

  test('leaves no temporary file behind, also when a key exists', async () => {
    const root = fresh();
    const store = folderStore(root);
    await store.create('a', '1');
    await store.create('a', '2');
    expect(readdirSync(join(root, 'tmp'))).toEqual([]);
  });

  describe('given a file that holds what is uploaded', () => {
    const given = (content = 'content') => {
      const path = join(mkdtempSync(join(folder, 'given-')), 'file');
      writeFileSync(path, content, { mode: 0o600 });
      return path;
    };
    async function* copied() {
      yield Buffer.from('copied');
    }
    const uploaded = async (file: string) => {
      const root = fresh();
      await folderStore(root).upload('a/b', copied, file);
      expect(readdirSync(join(root, 'tmp'))).toEqual([]);
      return readFileSync(join(root, 'a/b'), 'utf8');
    };

    test('makes it the object, over what is there, and again', async () => {
      const root = fresh();
      const store = folderStore(root);
      await store.upload('k', copied);
      const file = given();
      await store.upload('k', copied, file);
      expect(statSync(join(root, 'k')).ino).toBe(statSync(file).ino);
      // by now it has a further name
      await store.upload('k', copied, file);
      rmSync(file);
      expect(readFileSync(join(root, 'k'), 'utf8')).toBe('copied');
      expect(readdirSync(join(root, 'tmp'))).toEqual([]);
    });

    test.each<[string, (file: string) => void]>([
      ['has a further name', (file) => linkSync(file, `${file}2`)],
      ['others may write', (file) => chmodSync(file, 0o660)],
      ['is a link', (file) => execFileSync('sh', ['-c', `mv ${file} ${file}2; ln -s ${file}2 ${file}`])],
      ['is a pipe', (file) => execFileSync('sh', ['-c', `rm ${file}; mkfifo -m 600 ${file}`])],
      ['is not there', (file) => rmSync(file)],
    ])('copies one that %s', async (_what, change) => {
      expect(await uploaded(given())).toBe('content');
      const file = given();
      change(file);
      expect(await uploaded(file)).toBe('copied');
    });

    test('copies one on another disk', async ({ skip }) => {
      skip(!existsSync('/dev/shm'), 'needs a second file system');
      const path = mkdtempSync('/dev/shm/stepspawn-test-');
      try {
        writeFileSync(join(path, 'file'), 'content', { mode: 0o600 });
        expect(await uploaded(join(path, 'file'))).toBe('copied');
      } finally {
        rmSync(path, { recursive: true });
      }
    });
  });

  test('says that it cannot be used when the folder is a file', async () => {
    const root = fresh();
    rmSync(root, { recursive: true });
    writeFileSync(root, '');
    await expect(folderStore(root).create('a', '1')).rejects.toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringContaining(root),
    });
  });
});
