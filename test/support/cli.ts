/** Runs the terminal as a user does: a process, its two streams, its exit code. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MAIN = join(import.meta.dirname, '..', '..', 'cli', 'main.ts');

/** Starts `stepspawn ...args` in `cwd`; nothing of the test's own settings reaches it. `leaked` is open in it as 100. */
export function startCli(
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
  leaked?: number,
): ChildProcessByStdio<null, Readable, Readable> {
  const { PATH = '' } = process.env;
  const extra = leaked === undefined ? [] : [...Array<'ignore'>(97).fill('ignore'), leaked];
  const child = spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...extra],
  });
  return child as ChildProcessByStdio<null, Readable, Readable>;
}

export async function cli(
  args: readonly string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<Ran> {
  const child = startCli(args, cwd, env);
  const code = new Promise<number | null>((resolve) => child.once('close', resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await code, stdout, stderr };
}
