/** What a hostile or broken document does: a clear error soon, never a stack trace, nothing written. */
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { compile } from '../lib/blueprint/compile.ts';
import { unknownPlaceholders } from '../lib/blueprint/placeholders.ts';
import type { JsonObject } from '../lib/json.ts';
import { cli } from './support/cli.ts';
import { oneStep } from './support/documents.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const yamlBomb = [
  'a0: &a0 [x, x, x, x, x, x, x, x, x]',
  ...Array.from({ length: 9 }, (_, i) => `a${i + 1}: &a${i + 1} [${Array(9).fill(`*a${i}`).join(', ')}]`),
].join('\n');

test.each([
  ['truncated JSON', 'b.json', '{"id": "t", "flow": {"kind": "seq", "chil', 'not_json'],
  ['an empty file', 'b.json', '', 'not_json'],
  ['a document of 50 MB', 'b.json', `{"id": "${'x'.repeat(50_000_000)}"}`, 'too_large'],
  ['a YAML document of 50 MB', 'b.yaml', `id: ${'x'.repeat(50_000_000)}`, 'too_large'],
  ['100,000-deep nesting', 'b.json', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'too_deep'],
  [
    '100,000-deep objects in a document',
    'b.json',
    `{"id":"t","flow":${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}}`,
    'too_deep',
  ],
  ['100,000-deep nesting in YAML', 'b.yaml', `${'['.repeat(100_000)}${']'.repeat(100_000)}`, 'too_deep'],
  ['100,000-deep block nesting in YAML', 'b.yaml', `${'- '.repeat(100_000)}x`, 'too_deep'],
  ['a YAML bomb', 'b.yaml', `${yamlBomb}\n`, 'too_large'],
  ['a document that is a list', 'b.json', '[1, 2]', 'wrong_type'],
  ['NUL bytes', 'b.json', '{"id": "a\0b"}', 'not_json'],
  ['a NUL byte in an argument', 'b.json', JSON.stringify(oneStep({ argv: ['a\0b'] })), 'nul_byte'],
  ['bytes that are not UTF-8', 'b.json', Buffer.from([0x7b, 0xff, 0x7d]), 'not_utf8'],
  ['a null document', 'b.json', 'null', 'wrong_type'],
])('%s', async (_what, name, content, code) => {
  const dir = mkdtempSync(join(folder, 'bad-'));
  writeFileSync(join(dir, name), content);
  const begun = performance.now();
  const { code: exit, stdout, stderr } = await cli(['run', name], dir);
  expect(exit).toBe(2);
  const { error } = JSON.parse(stdout);
  expect(error.issues.map((issue: { code: string }) => issue.code)).toContain(code);
  expect(error.message.length).toBeLessThan(2000);
  expect(stderr).not.toMatch(/^\s+at /m);
  expect(readdirSync(dir)).toEqual([name]);
  expect(performance.now() - begun).toBeLessThan(10_000);
});

test('10,000 agents with an error each are all reported, up to the cap', async () => {
  const dir = mkdtempSync(join(folder, 'many-'));
  const agents = Array.from({ length: 10_000 }, (_, i) => ({
    name: `a${i}`,
    kind: 'subprocess',
    runner_ref: 'ghost',
  }));
  writeFileSync(
    join(dir, 'b.json'),
    JSON.stringify({ id: 't', flow: { kind: 'seq', children: [] }, agents }),
  );
  const { code, stdout } = await cli(['validate', 'b.json', '--json'], dir);
  expect(code).toBe(1);
  const { issues } = JSON.parse(stdout);
  expect(issues.length).toBeGreaterThan(900);
  expect(issues.at(-1).message).toMatch(/more/);
});

test('a template string of a million braces is scanned in one pass', () => {
  const braces = `${'{'.repeat(1_000_000)}}`;
  expect([...unknownPlaceholders(braces)]).toEqual([]);
  const answer = compile(oneStep({ argv: ['x', braces], stdin: `${braces}{evil}` }) as JsonObject);
  expect(answer.ok ? [] : answer.issues.map(({ path }) => path)).toEqual(['/subprocesses/0/stdin']);
});

test.each([
  ['an endless loop', '{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}'],
  [
    'a doubling string',
    `{% set ns = namespace(x="xxxxxxxxxxxxxxxx") %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}`,
  ],
])('%s in a system prompt is an error and leaves the process able to go on', async (_what, system_prompt) => {
  const dir = mkdtempSync(join(folder, 'prompt-'));
  writeFileSync(
    join(dir, 'b.json'),
    JSON.stringify(oneStep({ argv: ['true'] }, {}, { profile: { system_prompt } })),
  );
  const { code, stdout } = await cli(['run', 'b.json'], dir);
  expect(code).toBe(1);
  expect(JSON.parse(stdout).error).toMatchObject({
    failed_step: 'w',
    message: expect.stringContaining('system_prompt'),
  });
});

test('an agent name with a NUL byte is refused, since no child can be told it', () => {
  const answer = compile(oneStep({ argv: ['true'] }, {}, { name: 'w\0' }));
  expect(answer.ok ? [] : answer.issues.map(({ code, path }) => [code, path])).toContainEqual([
    'nul_byte',
    '/agents/0/name',
  ]);
});
