import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readGlob } from '../../lib/blueprint/glob.ts';
import { openFolder } from '../../lib/worker/below.ts';
import { newBudget, walk } from '../../lib/worker/walk.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();
let root: FileHandle;

beforeAll(async () => {
  const dir = mkdtempSync(join(folder, 'tree-'));
  for (let i = 0; i < 10; i++) {
    mkdirSync(join(dir, `d${i}`));
    for (let j = 0; j < 10; j++) writeFileSync(join(dir, `d${i}`, `f${j}`), '');
  }
  root = await openFolder(dir);
});
afterAll(() => root.close());

function look(globs: string[], given: Partial<ReturnType<typeof newBudget>> = {}) {
  const read = globs.map((text, index) => {
    const answer = readGlob(text);
    if (!answer.ok) throw new Error(answer.problem);
    return { ...answer.glob, index };
  });
  return walk(root, read, { budget: { ...newBudget(), ...given }, user: undefined });
}

test('every match is told once, with the globs that it satisfies', async () => {
  const { matches, cut } = await look(['d1/f[01]', '**/f1', 'none/**']);
  expect(matches.length).toBe(11);
  expect(matches.filter(({ path }) => path.startsWith('d1/'))).toEqual(
    expect.arrayContaining([
      { path: 'd1/f0', kind: null, declared: [0] },
      { path: 'd1/f1', kind: null, declared: [0, 1] },
    ]),
  );
  expect(cut).toBeNull();
});

test('it ends where a bound is reached, and says so', async () => {
  expect((await look(['**'], { entries: 110 })).cut).toBeNull();
  expect((await look(['**'], { entries: 109 })).cut).toBe('the search ended after 100000 files and folders');
  expect((await look(['**'], { chars: 399 })).cut).toBe('the paths that match are too long together');
  expect((await look(['**'], { steps: 100 })).cut).toBe(
    'the globs took too long to match; write simpler ones',
  );
  // folders that cannot hold a match are not counted
  expect((await look(['d1/*'], { entries: 20 })).cut).toBeNull();
});
