import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject, JsonValue } from '../../lib/json.ts';
import { cli } from '../support/cli.ts';
import { oneStep } from '../support/documents.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();

/** Runs the command on a template and its tests, with files beside them. */
async function run(template: JsonObject, tests: JsonValue, files: Record<string, string> = {}) {
  const dir = mkdtempSync(join(folder, 'test-'));
  const all = {
    'b.json': JSON.stringify(oneStep(template)),
    'b.test.json': JSON.stringify({ tests }),
    ...files,
  };
  for (const [name, content] of Object.entries(all)) writeFileSync(join(dir, name), content);
  const { code, stdout, stderr } = await cli(['test', 'b.json'], dir);
  return { code, answer: JSON.parse(stdout) as JsonObject, stderr };
}

const TEMPLATE = {
  argv: ['cli', '{model}'],
  stdin: '{prompt}',
  output: { format: 'json', result_ptr: '/r' },
};
const UNSET = { name: 'no model', error: 'PlaceholderUnset' };

test('passes what is as expected; a large recording comes from a file', async () => {
  const recorded = { stdout_file: 'out.json', stderr: 'noise' };
  const { code, answer } = await run(
    { argv: ['cli'], stdin: '{prompt}', output: { format: 'json', result_ptr: '/r' } },
    [
      {
        name: 'good',
        request: { in: { a: 1 } },
        command: { argv: ['cli'], stdin: '{"a":1}' },
        recorded,
        result: { ok: true, value: 'x'.repeat(5_000_000) },
      },
      {
        name: 'silent',
        recorded: { ended_for: 'silent', signal: 'SIGKILL' },
        result: { reason: 'silent', value: { raw: '' } },
      },
    ],
    { 'out.json': JSON.stringify({ r: 'x'.repeat(5_000_000) }) },
  );
  expect(answer).toMatchObject({ ok: false, passed: 1, failed: 1 });
  expect(code).toBe(1);
  // a value is compared as a whole
  expect((answer.tests as JsonObject[])[1]).toMatchObject({
    name: 'silent',
    differences: [{ path: '/result/value' }],
  });
});

test('tells each difference by its pointer, to people too', async () => {
  const { code, answer, stderr } = await run({ argv: ['cli'], output: { ok_from: '/ok' } }, [
    {
      name: 'wrong',
      command: { argv: ['other'] },
      recorded: { stdout: '{"ok":false}', exit_code: 3 },
      result: { ok: true, message: 'is true', stats: { model: 'm' }, retry: false },
    },
  ]);
  expect([code, answer]).toEqual([
    1,
    {
      ok: false,
      passed: 0,
      failed: 1,
      tests: [
        {
          name: 'wrong',
          ok: false,
          differences: [
            { path: '/command/argv', expected: ['other'], actual: ['cli'] },
            { path: '/result/ok', expected: true, actual: false },
            { path: '/result/message', expected: 'is true', actual: "ok_from '/ok' is false" },
            { path: '/result/stats/model', expected: 'm', actual: null },
          ],
        },
      ],
    },
  ]);
  expect(stderr).toContain('failed wrong\n       /command/argv: expected ["other"], got ["cli"]');
  expect(stderr).toContain('0 passed, 1 failed');
});

test('an error of rendering is expected by its code, and told where it is not', async () => {
  expect(await run(TEMPLATE, [UNSET])).toMatchObject({ code: 0, answer: { passed: 1 } });
  const { answer } = await run(TEMPLATE, [
    { name: 'works', recorded: { stdout: '{}' }, result: { ok: true } },
  ]);
  expect(answer.tests).toMatchObject([
    {
      differences: [
        { path: '/error', expected: null, actual: expect.stringContaining('{model} has no source') },
      ],
    },
  ]);
  const { answer: other } = await run({ argv: ['cli'] }, [UNSET]);
  expect(other.tests).toMatchObject([
    { differences: [{ path: '/error', expected: 'PlaceholderUnset', actual: null }] },
  ]);
});

test('a stream mode takes its result from the events', async () => {
  const stdout = '{"type":"final","ok":true,"content":{"kind":"inline","value":[1]}}\n';
  const tests = [{ name: 'stream', recorded: { stdout }, result: { ok: true, value: [1] } }];
  expect(await run({ argv: ['cli'], stream_mode: 'ndjson_lines' }, tests)).toMatchObject({ code: 0 });
});

test.each<[string, JsonValue, string]>([
  ['a test that cannot fail', [{ name: 'x', recorded: { stdout: '' } }], '/tests/0: a test without command'],
  ['nothing that is expected', [{ name: 'x', result: {} }], '/tests/0/result: nothing is expected'],
  ['a misspelt member', [{ name: 'x', result: { resaon: null } }], "unknown field 'resaon'"],
  [
    'a text and a file',
    [{ name: 'x', recorded: { stdout: '', stdout_file: 'a' }, result: { ok: true } }],
    'keep one',
  ],
  [
    'a recording without a result',
    [{ name: 'x', recorded: { stdout: '' }, error: 'InvalidTask' }],
    'not looked at without a result',
  ],
  [
    'a signal that is none',
    [{ name: 'x', recorded: { signal: 'FOO' }, result: { ok: false } }],
    'the name of a signal',
  ],
  ['no tests', [], '/tests: expected at least one test, got a list'],
  ['a misspelt field', [{ name: 'x', expect: {} }], "/tests/0/expect: unknown field 'expect'"],
  ['an unknown agent', [{ name: 'x', agent: 'b', result: { ok: true } }], "no agent 'b'"],
])('refuses %s', async (_, tests, message) => {
  const { code, answer } = await run({ argv: ['cli'] }, tests);
  expect([code, answer]).toMatchObject([
    2,
    { error: { code: 'InvalidTask', message: expect.stringContaining(message) } },
  ]);
});

test('files that cannot be read are wrong usage, and nothing is left behind', async () => {
  const dir = mkdtempSync(join(folder, 'test-'));
  writeFileSync(join(dir, 'b.json'), JSON.stringify(oneStep({ argv: ['cli'] })));
  const before = readdirSync(tmpdir()).filter((name) => name.startsWith('stepspawn-fixture-')).length;
  const { code, stderr } = await cli(['test', 'b.json'], dir);
  expect([code, stderr]).toEqual([64, expect.stringContaining('cannot read b.test.json: ENOENT')]);
  const tests = [{ name: 'x', recorded: { stdout_file: 'gone.json' }, result: { ok: true } }];
  writeFileSync(join(dir, 'b.test.json'), JSON.stringify({ tests }));
  expect(await cli(['test', 'b.json'], dir)).toMatchObject({ code: 64 });
  expect(readdirSync(tmpdir()).filter((name) => name.startsWith('stepspawn-fixture-'))).toHaveLength(before);
});
