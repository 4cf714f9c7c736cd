/** `npm run build`: bundles of the functions and the command line into dist/, with sizes checked against a budget. */
import { copyFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { build, type Metafile } from 'esbuild';
import { compileLauncher } from './launcher/compile.ts';

/** The AWS SDK calls `require` for Node's own modules; an ES module has none unless it makes one. */
const REQUIRE =
  "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
const DIST = join(import.meta.dirname, 'dist');
const WASM = createRequire(import.meta.url).resolve('minijinja-js/dist/web/minijinja_js_bg.wasm');

/**
 * What is built: folder and entry, the bytes of JavaScript that are loaded at the start (the entry and what it imports
 * statically), and of all there is, which is loaded when it is needed.
 */
const TARGETS = [
  {
    folder: 'validate',
    name: 'index',
    entry: 'functions/validate.ts',
    budget: { start: 200_000, all: 800_000 },
  },
  { folder: 'spawn', name: 'index', entry: 'functions/spawn.ts', budget: { start: 300_000, all: 1_400_000 } },
  { folder: 'plan', name: 'index', entry: 'functions/plan.ts', budget: { start: 250_000, all: 1_400_000 } },
  {
    folder: 'cancel-marker',
    name: 'index',
    entry: 'functions/cancel-marker.ts',
    budget: { start: 110_000, all: 700_000 },
  },
  { folder: 'cli', name: 'stepspawn', entry: 'cli/main.ts', budget: { start: 120_000, all: 1_700_000 } },
] as const;

await rm(DIST, { recursive: true, force: true });
for (const { folder, name, entry, budget } of TARGETS) {
  const outdir = join(DIST, folder);
  const { metafile } = await build({
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
    metafile: true,
    logLevel: 'warning',
  });
  await copyFile(WASM, join(outdir, 'minijinja_js_bg.wasm'));
  await writeFile(join(outdir, 'package.json'), '{"type":"module"}\n');
  const sizes = { start: startBytes(metafile, `${folder}/${name}.mjs`), all: await scriptBytes(outdir) };
  process.stdout.write(`${folder}: ${sizes.start} bytes at the start, ${sizes.all} in all\n`);
  for (const part of ['start', 'all'] as const) {
    if (sizes[part] > budget[part])
      throw new Error(
        `the bundle ${folder} (${part}) has ${sizes[part]} bytes, its budget is ${budget[part]}`,
      );
  }
}

const problem = await compileLauncher(join(DIST, 'cli', 'launcher'));
process.stdout.write(
  problem === null ? 'launcher: built\n' : `launcher: left out, Node starts children itself: ${problem}\n`,
);

/** Bytes of an output and of everything that it imports statically. */
function startBytes({ outputs }: Metafile, entry: string): number {
  const seen = new Set<string>();
  const add = (path: string): number => {
    const output = outputs[path];
    if (!output || seen.has(path)) return 0;
    seen.add(path);
    const below = output.imports
      .filter(({ kind }) => kind === 'import-statement')
      .map((used) => add(used.path));
    return below.reduce((sum, size) => sum + size, output.bytes);
  };
  return add(Object.keys(outputs).find((path) => path.endsWith(entry)) ?? '');
}

async function scriptBytes(folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.mjs'));
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
