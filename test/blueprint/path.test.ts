import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatPath, parseLetPath, parsePath } from '../../lib/blueprint/path.ts';

describe('a path names', () => {
  test.each([
    ['$', []],
    ['$.a', ['a']],
    ['$.a.b', ['a', 'b']],
    ['$.a.0', ['a', '0']],
    ['$["x.y"]', ['x.y']],
    ['$["x.y"].b["c"]["d e"]', ['x.y', 'b', 'c', 'd e']],
    ['$.a.["b"]', ['a', 'b']],
    ['$.a["]"]', ['a', ']']],
    ['$.a["\\"]', ['a', '\\']],
    ['$.__proto__.constructor', ['__proto__', 'constructor']],
    ['$.a b.ü"', ['a b', 'ü"']],
  ])('%s', (text, keys) => expect(parsePath(text)).toEqual({ ok: true, keys }));
});

describe('a path is refused', () => {
  test.each([
    '',
    'a.b',
    'ctx.a',
    '$a',
    '$.',
    '$..a',
    '$.a.',
    '$.a..b',
    '$.a[0]',
    '$.a[""]',
    '$.a["b',
    '$.a["b"',
    '$.a["b"]c',
    "$['a']",
    '$[',
    ' $.a',
  ])('%j', (text) => expect(parsePath(text)).toMatchObject({ ok: false }));

  test('with a message that quotes it and shows the form', () => {
    expect(parsePath('$.a..b')).toEqual({
      ok: false,
      message: '"$.a..b" is not a path: the key at position 4 is empty; write $.a.b or $["a.b"].c',
    });
  });
});

test('a let path may start with ctx', () => {
  expect(parseLetPath('ctx.a["b.c"]')).toEqual({ ok: true, keys: ['a', 'b.c'] });
  expect(parseLetPath('$.a')).toEqual({ ok: true, keys: ['a'] });
  expect(parseLetPath('ctx')).toEqual({ ok: true, keys: [] });
  expect(parseLetPath('ctxa')).toMatchObject({ ok: false });
  expect(parseLetPath('a.b')).toMatchObject({ ok: false });
});

test('text and keys are each other’s inverse', () => {
  const key = fc.string({ minLength: 1 }).filter((text) => !text.includes('"') || !/[.[]/.test(text));
  fc.assert(
    fc.property(fc.array(key), (keys) => {
      expect(parsePath(formatPath(keys))).toEqual({ ok: true, keys });
    }),
  );
});

test('any text is read or refused without a throw', () => {
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('$', '.', '[', ']', '"', 'a') }), (text) => {
      const parsed = parsePath(text);
      if (parsed.ok) expect(parsePath(formatPath(parsed.keys))).toEqual(parsed);
    }),
  );
});
