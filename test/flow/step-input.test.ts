import { expect, test } from 'vitest';
import { promptText, stepInput } from '../../lib/flow/step-input.ts';
import { type JsonValue, parseJson } from '../../lib/json.ts';

const metas = new Map<string, JsonValue>([
  ['m', { a: 1, b: 1 }],
  ['text', 'no object'],
  ['__proto__', { p: 1 }],
]);

test.each<[string, JsonValue, JsonValue]>([
  ['text', { in: 'text', step_ctx: null }, 'text'],
  ['no meta', { in: { $in: 1 }, step_ctx: null }, { $in: 1 }],
  ['list', { in: [{ $step_meta: 1 }], step_ctx: null }, [{ $step_meta: 1 }]],
  [
    'siblings of $in',
    { in: 'go', step_ctx: { w: 1 } },
    { $step_meta: { inline: { w: 1 } }, $in: 'go', z: 1 },
  ],
  ['null $in', { in: null, step_ctx: { a: 1, b: 1 } }, { $step_meta: { ref: 'm' }, $in: null }],
  ['rest', { in: { z: 1 }, step_ctx: { a: 1, b: 1 } }, { $step_meta: { ref: 'm' }, z: 1 }],
  ['nothing left', { in: '', step_ctx: { a: 1, b: 1 } }, { $step_meta: { ref: 'm' } }],
  ['inline on top', { in: '', step_ctx: { a: 2, b: 1 } }, { $step_meta: { ref: 'm', inline: { a: 2 } } }],
  ['nulls', { in: '', step_ctx: null }, { $step_meta: { ref: null, inline: null, other: 1 } }],
  ['a name of the prototype', { in: '', step_ctx: { p: 1 } }, { $step_meta: { ref: '__proto__' } }],
])('%s', (_title, expected, value) => expect(stepInput(value, metas)).toEqual(expected));

test.each<[JsonValue, string]>([
  [null, '$step_meta must be an object, not null'],
  ['m', '$step_meta must be an object, not string'],
  [{ ref: 1 }, '$step_meta.ref must be a string, not number'],
  [{ inline: [] }, '$step_meta.inline must be an object, not array'],
  [{ ref: 'toString' }, '$step_meta.ref "toString" names no entry of metas: "m" "text" "__proto__"'],
  [{ ref: 'text' }, 'metas "text" must be an object, not string'],
])('$step_meta %j is refused', (meta, message) => {
  expect(() => stepInput({ $step_meta: meta }, metas)).toThrow(message);
});

test('members named __proto__ are data', () => {
  const value = parseJson('{"$step_meta":{"inline":{"__proto__":{"x":1}}},"__proto__":2}');
  const { in: directive, step_ctx } = stepInput(value, metas);
  expect([promptText(directive), promptText(step_ctx)]).toEqual(['{"__proto__":2}', '{"__proto__":{"x":1}}']);
});

test('the prompt is the string itself, or compact JSON with its digits', () => {
  expect(promptText('a\n')).toBe('a\n');
  expect(promptText(parseJson('{"b":1.0,"a":[9007199254740993,null]}'))).toBe(
    '{"a":[9007199254740993,null],"b":1.0}',
  );
});
