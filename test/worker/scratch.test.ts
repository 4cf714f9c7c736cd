/** When the directory of an attempt is used again: only when it is as good as a new one. */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { openScratch, type Scratch } from '../../lib/worker/scratch.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();
const open = async () => openScratch({ root: await mkdtemp(join(folder, 'scratch-')) });
const inode = ({ home }: Scratch): number => lstatSync(home).ino;

describe('the directory of an attempt', () => {
  test('in which nothing was changed is used again under another name, with our files gone', async () => {
    const root = await open();
    const first = await root.make('A=1');
    await first.write('stdin', 'x');
    await first.write('large', Buffer.alloc(2_000_000));
    const before = inode(first);
    await first.remove();
    await first.remove();
    expect(readdirSync(root.dir).filter((name) => name.startsWith('a'))).toEqual([]);
    const [next, other] = [await root.make('A=2'), await root.make('A=3')];
    expect([next.dir === first.dir, inode(next)]).toEqual([false, before]);
    expect(inode(other)).not.toBe(before);
    expect(readdirSync(next.dir).sort()).toEqual(['home', 'mark', 'tmp', 'work']);
  });

  const CHANGES: Record<string, (scratch: Scratch) => void> = {
    'a file in HOME': ({ home }) => writeFileSync(join(home, 'x'), ''),
    'a link in TMPDIR': ({ tmp }) => symlinkSync('/etc', join(tmp, 'x')),
    'a folder that came and went': ({ work }) => {
      mkdirSync(join(work, 'x'));
      rmdirSync(join(work, 'x'));
    },
    'other rights': ({ home }) => chmodSync(home, 0o777),
    'rights that came and went': ({ home }) => {
      chmodSync(home, 0o777);
      chmodSync(home, 0o700);
    },
    'other times': ({ tmp }) => utimesSync(tmp, 1, 1),
    'other rights of all of it': ({ dir }) => chmodSync(dir, 0o755),
    'a folder more': ({ dir }) => mkdirSync(join(dir, 'x')),
    'a folder less': ({ work }) => rmdirSync(work),
    'another folder in its place': ({ tmp }) => {
      rmdirSync(tmp);
      mkdirSync(tmp, { mode: 0o700 });
    },
  };
  test.each(Object.entries(CHANGES))('is not used again after %s', async (_what, change) => {
    const root = await open();
    const first = await root.make('A=1');
    await new Promise((resolve) => setTimeout(resolve, 20));
    change(first);
    await first.remove();
    expect(readdirSync(root.dir)).toEqual([]);
    expect(readdirSync((await root.make('A=2')).home)).toEqual([]);
  });

  test('is not used again when it begins as a seed, or was given to another user', async () => {
    const homeSeed = await mkdtemp(join(folder, 'seed-'));
    const seeded = await openScratch({ root: await mkdtemp(join(folder, 'scratch-')), homeSeed });
    await (await seeded.make('A=1')).remove();
    const given = await open();
    const scratch = await given.make('A=1');
    await scratch.giveTo({ uid: process.getuid!(), gid: process.getgid!() });
    await scratch.remove();
    expect([readdirSync(seeded.dir), readdirSync(given.dir)]).toEqual([[], []]);
  });
});
