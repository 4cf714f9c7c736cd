import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
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
