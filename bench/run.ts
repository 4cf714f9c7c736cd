/** `npm run bench [-- NAME]`: runs the measurements and prints a table and, as the last line, JSON. */
import { readdir } from 'node:fs/promises';
import type { Measured } from './measure.ts';

const HELPERS = new Set(['run.ts', 'measure.ts']);
const wanted = process.argv[2];
const files = (await readdir(import.meta.dirname))
  .filter((name) => name.endsWith('.ts') && !HELPERS.has(name))
  .sort();
const names = files
  .map((name) => name.slice(0, -3))
  .filter((name) => wanted === undefined || name === wanted);
if (names.length === 0) {
  process.stderr.write(
    `no benchmark '${wanted}'; there are ${files.map((name) => name.slice(0, -3)).join(', ')}\n`,
  );
  process.exit(64);
}

const all: Record<string, readonly Measured[]> = {};
for (const name of names) {
  const { measure } = (await import(`./${name}.ts`)) as { measure: () => Promise<readonly Measured[]> };
  const rows = await measure();
  all[name] = rows;
  for (const row of rows) {
    const { what, ratio, detail } = row;
    process.stdout.write(
      `${name.padEnd(10)} ${what.padEnd(52)} ${ratio.toFixed(2).padStart(8)} ${verdictOf(row).padEnd(10)} ${detail}\n`,
    );
  }
}
process.stdout.write(`${JSON.stringify(all)}\n`);

function verdictOf({ ratio, goal, least }: Measured): string {
  if (goal !== undefined) return ratio <= goal ? `<= ${goal}` : `OVER ${goal}`;
  if (least !== undefined) return ratio >= least ? `>= ${least}` : `UNDER ${least}`;
  return '';
}
