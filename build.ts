/** `npm run build`: bundles of the functions and the command line into dist/, with sizes checked against a budget. */
import { copyFile, mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build } from 'esbuild';

/** The AWS SDK calls `require` for Node's own modules; an ES module has none unless it makes one. */
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
const DIST = join(import.meta.dirname, 'dist');
const WASM = createRequire(import.meta.url).resolve('minijinja-js/dist/web/minijinja_js_bg.wasm');

/** What is built: folder and entry, and the bytes that all its JavaScript may have together. */
const TARGETS = [
  { folder: 'validate', name: 'index', entry: 'functions/validate.ts', budget: 1_000_000 },
  { folder: 'spawn', name: 'index', entry: 'functions/spawn.ts', budget: 1_400_000 },
  { folder: 'plan', name: 'index', entry: 'functions/plan.ts', budget: 1_100_000 },
  { folder: 'cli', name: 'stepspawn', entry: 'cli/main.ts', budget: 1_400_000 },
] as const;

await rm(DIST, { recursive: true, force: true });
for (const { folder, name, entry, budget } of TARGETS) {
  const outdir = join(DIST, folder);
  await build({
    entryPoints: [
      { in: entry, out: name },
      { in: 'lib/worker/system-prompt-engine.ts', out: 'system-prompt-engine' },
    ],
    absWorkingDir: import.meta.dirname,
    outdir,
    outExtension: { '.js': '.mjs' },
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node22.12',
    mainFields: ['module', 'main'],
    minify: true,
    sourcemap: 'linked',
    banner: { js: REQUIRE },
    logLevel: 'warning',
  });
  await copyFile(WASM, join(outdir, 'minijinja_js_bg.wasm'));
  await writeFile(join(outdir, 'package.json'), '{"type":"module"}\n');
  const bytes = await scriptBytes(outdir);
  process.stdout.write(`${folder}: ${bytes} bytes of ${budget}\n`);
  if (bytes > budget) throw new Error(`the bundle ${folder} has ${bytes} bytes, its budget is ${budget}`);
}

async function scriptBytes(folder: string): Promise<number> {
  await mkdir(folder, { recursive: true });
  const names = (await readdir(folder)).filter((name) => name.endsWith('.mjs'));
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
