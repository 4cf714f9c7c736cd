import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli, startCli } from '../support/cli.ts';
import { oneStep } from '../support/documents.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();
const items = Array.from({ length: 200_000 }, (_, i) => ({ id: i, text: ' "two\n  lines" ' }));

function place(): string {
  const dir = mkdtempSync(join(folder, 'cli-'));
  writeFileSync(join(dir, 'value.txt'), JSON.stringify(items, null, 2));
  writeFileSync(join(dir, 'b.json'), JSON.stringify(oneStep({ argv: ['cat', join(dir, 'value.txt')] })));
  return dir;
}

test('a large value is printed whole, on the one compact line, by spawn and by result', async () => {
  const dir = place();
  const spawned = await cli(['spawn', 'b.json', '--agent', 'w', '--task-id', 'T-1'], dir);
  expect([spawned.code, spawned.stderr]).toEqual([0, '']);
  expect(spawned.stdout.endsWith(`,"value":${JSON.stringify(items)}}\n`)).toBe(true);
  const result = JSON.parse(spawned.stdout);
  expect(result).toMatchObject({ task_id: 'T-1', ok: true });
  expect(Object.keys(result)).not.toContain('value_ref');
  expect(Object.keys(result)).not.toContain('preview');
  const again = await cli(['result', 'T-1'], dir);
  expect([again.code, JSON.parse(again.stdout)]).toEqual([0, result]);
});

test('a reader that stops early is no failure', async () => {
  const dir = place();
  const child = startCli(['spawn', 'b.json', '--agent', 'w'], dir);
  const ended = new Promise((resolve) => child.once('close', resolve));
  let complaints = '';
  child.stderr.on('data', (chunk) => {
    complaints += chunk;
  });
  child.stdout.once('data', () => child.stdout.destroy());
  expect([await ended, complaints]).toEqual([0, '']);
});
