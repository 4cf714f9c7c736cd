/** A directory of the user's in which children run. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import type { RunPorts } from '../../lib/run.ts';
import { realPorts } from './ports.ts';

export async function workFolder(
  folder: string,
  given: Partial<RunPorts> = {},
): Promise<{ readonly dir: string; readonly ports: RunPorts }> {
  const dir = mkdtempSync(join(folder, 'work-'));
  return { dir, ports: await realPorts(folder, { default_cwd: dir, ...given }) };
}
