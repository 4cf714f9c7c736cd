/** Runs the terminal as a user does: a process, its two streams, its exit code. */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const MAIN = join(import.meta.dirname, '..', '..', 'cli', 'main.ts');

/** Starts `stepspawn ...args` in `cwd`; nothing of the test's own settings reaches it. */
export function startCli(args: readonly string[], cwd: string, env: Record<string, string> = {}) {
  const { PATH = '' } = process.env;
  return spawn(process.execPath, [MAIN, ...args], {
    cwd,
    env: { PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
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
