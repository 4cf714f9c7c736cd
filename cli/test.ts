import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, extname, join, resolve } from 'node:path';
import { type Difference, type Fixture, Fixtures, runFixture } from '../lib/fixtures.ts';
import type { JsonValue } from '../lib/json.ts';
import { readAs } from '../lib/request.ts';
import { short } from '../lib/worker/text.ts';
import { readBlueprint, readChecked, readInput } from './blueprint-file.ts';
import { EXIT, print, say } from './output.ts';

interface Tested {
  readonly name: string;
  readonly ok: boolean;
  readonly differences: readonly Difference[];
}

/** `stepspawn test`: the fixtures beside a Blueprint, or those that are named; prints what does not hold. */
export async function testCommand(file: string, options: { readonly fixtures?: string }): Promise<void> {
  const document = await readChecked(file);
  const fixtures = options.fixtures ?? besides(file);
  const { value } = await readBlueprint(fixtures);
  const tests: Tested[] = [];
  for (const fixture of readAs(Fixtures, value).tests) tests.push(await testOne(document, fixture, fixtures));
  for (const { name, ok, differences } of tests) {
    say(`${ok ? 'ok    ' : 'failed'} ${short(name, 200)}`);
    for (const { path, expected, actual } of differences)
      say(`       ${path}: expected ${shown(expected)}, got ${shown(actual)}`);
  }
  const failed = tests.filter(({ ok }) => !ok).length;
  const passed = tests.length - failed;
  say(`${passed} passed, ${failed} failed`);
  print({ ok: failed === 0, passed, failed, tests });
  process.exitCode = failed === 0 ? EXIT.ok : EXIT.notPassed;
}

/** `x.test.json` for `x.json`. */
function besides(file: string): string {
  const extension = extname(file);
  return `${file.slice(0, file.length - extension.length)}.test${extension}`;
}

async function testOne(document: JsonValue, fixture: Fixture, file: string): Promise<Tested> {
  const folder = await mkdtemp(join(tmpdir(), 'stepspawn-fixture-'));
  try {
    const read = (name: string): Promise<Uint8Array> => readInput(resolve(dirname(file), name));
    const differences = await runFixture(document, fixture, { folder, read });
    return { name: fixture.name, ok: differences.length === 0, differences };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function shown(value: JsonValue): string {
  return short(JSON.stringify(value), 300);
}
