/** The documents say what the code says. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { EXIT } from '../cli/output.ts';
import { ERRORS } from '../lib/errors.ts';
import { REASONS } from '../lib/task.ts';

const project = join(import.meta.dirname, '..');
const read = (file: string): string => readFileSync(join(project, file), 'utf8');

/** The cells of every row of a table whose heading begins with `first`. */
function rows(text: string, first: string): string[][] {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => new RegExp(`^\\| ${first} +\\|`).test(line));
  const table = lines.slice(start + 2);
  const end = table.findIndex((line) => !line.startsWith('|'));
  return table.slice(0, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

test('docs/errors.md lists every error code with status, retry and meaning', () => {
  const listed = rows(read('docs/errors.md'), 'code');
  expect(listed).toEqual(
    Object.entries(ERRORS).map(([code, { http, retryable, meaning }]) => [
      code,
      String(http),
      retryable ? 'yes' : 'no',
      meaning,
    ]),
  );
});

test('docs/errors.md lists every reason and every exit code', () => {
  const text = read('docs/errors.md');
  expect(rows(text, 'reason').map(([reason]) => reason)).toEqual([...REASONS]);
  const exits = rows(text.slice(text.indexOf('## Exit codes')), 'code').map(([code]) => Number(code));
  expect(exits).toEqual(Object.values(EXIT));
});

test('every link in the documents leads to a file', () => {
  const documents = ['README.md', ...readdirSync(join(project, 'docs')).map((name) => `docs/${name}`)];
  const broken = documents.flatMap((file) =>
    [...read(file).matchAll(/\]\((?!https?:|#)([^)#]+)/g)]
      .map(([, target]) => target ?? '')
      .filter((target) => !existsSync(join(project, dirname(file), target)))
      .map((target) => `${file}: ${target}`),
  );
  expect(broken).toEqual([]);
});
