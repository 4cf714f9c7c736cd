/** What is measured as it is shipped: bundles, which need less memory than sources whose types Node strips. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { buildSync } from 'esbuild';

const ROOT = join(import.meta.dirname, '..', '..');
let built = false;

/** A file below dist/, which is built once in each run. */
export function shipped(path: string): string {
  if (!built) execFileSync(process.execPath, [join(ROOT, 'build.ts')], { stdio: 'pipe' });
  built = true;
  return join(ROOT, 'dist', path);
}

let folder: string | undefined;

/** A script of bench/ as a bundle. */
export function bundled(script: string): string {
  if (folder === undefined) {
    const made = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
    process.once('exit', () => rmSync(made, { recursive: true, force: true }));
    folder = made;
  }
  const outfile = join(folder, `${basename(script, '.ts')}.mjs`);
  const require = `import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`;
  buildSync({
    entryPoints: [join(ROOT, 'bench', script)],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    minify: true,
    banner: { js: require },
    logLevel: 'warning',
  });
  return outfile;
}
