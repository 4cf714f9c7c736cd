/** The file that a child printed into becomes the stored object where nobody else can change it; else it is copied. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { RunPorts } from '../lib/run.ts';
import { attempt, shell } from './support/attempts.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const SIZE = 20 * 1024 * 1024;
const LINE = 'secret-of-somebody\n';
const CONTENT = LINE.repeat(Math.ceil(SIZE / LINE.length)).slice(0, SIZE);
const PRINTS = `yes ${LINE.trim()} | head -c ${SIZE}`;

/** Runs the script; the content of the stored stdout, and whether it is the file that the child printed into. */
async function stored(
  script: string,
  { given = {}, template = {} }: { given?: Partial<RunPorts>; template?: Parameters<typeof shell>[1] } = {},
) {
  const made = await realPorts(folder, given);
  let printed = 0;
  const ports: RunPorts = {
    ...made,
    spawn: async (start) => {
      const exit = await made.spawn(start);
      printed = statSync(exit.stdout.path).ino;
      return exit;
    },
  };
  const { ok, stdout } = await attempt(ports, shell(script, template));
  expect(ok).toBe(true);
  const path = join(made.store.url.slice('file://'.length), stdout.key ?? '');
  return { path, isSame: statSync(path).ino === printed, content: readFileSync(path, 'utf8') };
}

test('a large stdout becomes the object', async () => {
  const { path, isSame, content } = await stored(PRINTS);
  expect([isSame, content === CONTENT]).toEqual([true, true]);
  const { nlink, mode } = statSync(path);
  expect([nlink, mode & 0o777]).toEqual([1, 0o600]);
});

test('one with a secret in it is copied, without it', async () => {
  const secrets = { names: new Set(['s']), resolve: async () => LINE.trim() };
  const { isSame, content } = await stored(PRINTS, { given: { secrets }, template: { secrets: { S: 's' } } });
  const masked = CONTENT.replaceAll(LINE.trim(), '*'.repeat(LINE.length - 1));
  expect([isSame, content === masked]).toEqual([false, true]);
});

test('one that the child gave a further name or to others is copied', async () => {
  const other = join(mkdtempSync(join(folder, 'other-')), 'name');
  const linked = await stored(`ln "$HOME/../stdout" ${other}; ${PRINTS}`);
  expect([linked.isSame, linked.content === CONTENT]).toEqual([false, true]);
  const opened = await stored(`chmod 666 "$HOME/../stdout"; ${PRINTS}`);
  expect([opened.isSame, opened.content === CONTENT]).toEqual([false, true]);
  expect(statSync(opened.path).mode & 0o777).toBe(0o600);
});

test('one that a process of somebody else holds open is copied, and stays as it was', async () => {
  const path = join(mkdtempSync(join(folder, 'path-')), 'path');
  const script = `until [ -s ${path} ]; do sleep 0.02; done; exec 3>> "$(cat ${path})"; echo open; read _; echo more >&3`;
  const holder = spawn('sh', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const opened = once(holder.stdout, 'data');
  // what began before the attempt is not taken for a part of it
  await wait(50);
  const {
    isSame,
    content,
    path: object,
  } = await stored(`echo "$HOME/../stdout" > ${path}; sleep 0.5; ${PRINTS}`);
  await opened;
  holder.stdin.end('\n');
  await once(holder, 'close');
  expect([isSame, content === CONTENT]).toEqual([false, true]);
  expect(statSync(object).size).toBe(SIZE);
});

test('one that belongs to the user of the child is copied', async ({ skip }) => {
  skip(process.getuid?.() !== 0, 'needs root');
  const child_user = { uid: 65_534, gid: 65_534 };
  const scratchRoot = mkdtempSync('/tmp/stepspawn-test-user-');
  const ports = await realPorts(scratchRoot, {});
  const { isSame, content, path } = await stored(PRINTS, { given: { child_user, scratch: ports.scratch } });
  expect([isSame, content === CONTENT]).toEqual([false, true]);
  expect(statSync(path).uid).toBe(0);
});
