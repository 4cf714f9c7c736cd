/** Compiles the launcher once for all tests, where there is a compiler and LAUNCHER names none; they find it by that. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileLauncher } from '../../launcher/compile.ts';

export default async function setup(): Promise<(() => void) | undefined> {
  if (process.env.LAUNCHER) return undefined;
  const dir = mkdtempSync(join(tmpdir(), 'stepspawn-test-launcher-'));
  const path = join(dir, 'launcher');
  const problem = await compileLauncher(path);
  process.env.LAUNCHER = problem === null ? path : 'none';
  if (problem !== null) process.stderr.write(`tests run without the launcher: ${problem}\n`);
  return () => rmSync(dir, { recursive: true, force: true });
}
