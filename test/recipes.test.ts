/** The recipes without their programs; test/clis drives the programs. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { PACKAGES } from './clis/install.ts';
import { OUTCOMES, SCENARIOS, type Scenario, tableRow } from './clis/outcomes.ts';
import { cli } from './support/cli.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const project = join(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(join(project, file), 'utf8');
const names = Object.keys(OUTCOMES);

/** CLIs that take data in no other way. */
const TAKE_DATA_AS_ARGUMENTS = ['cline', 'continue'];

test.each(names)('recipes/%s.json is valid, without a warning that could be helped', async (name) => {
  const { code, stdout } = await cli(
    ['validate', '--json', join(project, 'recipes', `${name}.json`)],
    folder,
  );
  const { issues } = JSON.parse(stdout);
  const codes = new Set(issues.map((issue: { code: string }) => issue.code));
  expect([code, [...codes]]).toEqual([0, TAKE_DATA_AS_ARGUMENTS.includes(name) ? ['data_in_argv'] : []]);
});

test.each(names)('recipes/%s.json reads recorded output of its CLI as it should', async (name) => {
  const { code, stdout } = await cli(['test', join(project, 'recipes', `${name}.json`)], folder);
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { ok: true, failed: 0 }]);
});

test.each(names)('recipes/%s.md and docs/recipes.md name the tested version', (name) => {
  const { version } = PACKAGES[name]!;
  expect(read(`recipes/${name}.md`)).toMatch(new RegExp(`^\\| tested +\\| \`[^\`]+\` ${version} `, 'm'));
  expect(read('docs/recipes.md')).toMatch(new RegExp(`^\\| \\[${name}\\.json\\].*\\| ${version} `, 'm'));
});

test('docs/recipes.md tells what the tests of the recipes hold real runs against', () => {
  const rows = names.flatMap((name) =>
    Object.keys(SCENARIOS).map((scenario) => tableRow(name, scenario as Scenario)),
  );
  const text = read('docs/recipes.md');
  expect(rows.filter((row) => !text.includes(row))).toEqual([]);
});
