import { expect, test } from 'vitest';
import { fold } from '../../lib/flow/fold.ts';
import { canonicalJson } from '../../lib/json.ts';

test.each([
  ['{"a":1.0}', '{"a":1.0}'],
  [' \n\u00a0[1]\n', '[1]'],
  ['```json\n{"k":1}\n```', '{"k":1}'],
  ['```\n["a"]\n```\n\n', '["a"]'],
  ['````json\r\n{"k":"```"}\r\n````', '{"k":"```"}'],
])('%j is read as %s', (text, json) => expect(canonicalJson(fold(text))).toBe(json));

test.each([
  '42',
  '"x"',
  'null',
  'true',
  '',
  '{not json',
  '{"a":1} x',
  '\ufeff{"a":1}',
  '```json\nnot\n```',
  '```json\n{"k":1}',
  '```\n42\n```',
  '```',
  '``````',
  '[1e400]',
  '[',
  '['.repeat(100_000),
  '`'.repeat(100_000),
  ' '.repeat(100_000),
])('%.20j stays', (text) => expect(fold(text)).toBe(text));

test('only a top-level string is folded', () => {
  const value = { raw: '[1]' };
  expect(fold(value)).toBe(value);
  expect(fold(['[1]'])).toEqual(['[1]']);
  expect(fold(5)).toBe(5);
  expect(fold(null)).toBe(null);
});
