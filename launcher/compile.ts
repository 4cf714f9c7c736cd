/** Compiles the launcher of children, where there is a C compiler. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

const SOURCE = join(import.meta.dirname, 'launcher.c');
const FLAGS = ['-O2', '-Wall', '-Wextra', '-s'];

/** Makes the program at `path`, without need for a library where that is possible; null, or why it cannot be made. */
export async function compileLauncher(path: string): Promise<string | null> {
  if (process.platform !== 'linux') return 'it is for Linux only';
  let reason = '';
  for (const linking of [['-static'], []]) {
    const done = await promisify(execFile)('cc', [...FLAGS, ...linking, '-o', path, SOURCE]).catch(
      (error: Error) => error,
    );
    if (!(done instanceof Error)) return null;
    reason = done.message;
  }
  return reason;
}
