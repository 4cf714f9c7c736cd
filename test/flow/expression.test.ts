import { expect, test } from 'vitest';
import type { Expr } from '../../lib/blueprint/flow-schema.ts';
import { openContext } from '../../lib/flow/context.ts';
import { evaluate } from '../../lib/flow/expression.ts';
import { type JsonValue, parseJson } from '../../lib/json.ts';
import { lit, path } from './driver.ts';

type Binary = Extract<Expr, { lhs: Expr }>['op'];
const two = (op: Binary, lhs: JsonValue, rhs: JsonValue): Expr => ({ op, lhs: lit(lhs), rhs: lit(rhs) });
const has = (needle: JsonValue, haystack: JsonValue): Expr => ({
  op: 'in',
  needle: lit(needle),
  haystack: lit(haystack),
});
const not = (value: JsonValue): Expr => ({ op: 'not', arg: lit(value) });
const len = (value: JsonValue): Expr => ({ op: 'len', arg: lit(value) });
const exists = (arg: Expr): Expr => ({ op: 'exists', arg });
const raw = (text: string): JsonValue => parseJson(text);
const broken: Expr = two('div', 1, 0);

const context = openContext(parseJson('{"a":{"b":1},"n":null,"l":[1],"s":"abc","__proto__":{"x":"own"}}'));
const value = (expr: Expr) => evaluate(expr, context, { left: 100 });

test.each<[Expr, JsonValue]>([
  [lit(null), null],
  [path('$.a.b'), 1],
  [path('$.n'), null],
  [path('$["__proto__"].x'), 'own'],
  [two('eq', 5, raw('5.0')), true],
  [two('eq', 1, '1'), false],
  [two('eq', null, false), false],
  [two('eq', { a: [1], b: 2 }, { b: raw('2.0'), a: [1] }), true],
  [two('ne', [1], [1, 2]), true],
  [two('lt', 1, 2), true],
  [two('lt', raw('2.0'), 2), false],
  [two('lte', raw('2.0'), 2), true],
  [two('gt', 'b', 'a'), true],
  [two('gte', 'a', 'a'), true],
  [two('lt', 'Z', 'a'), true],
  [two('lt', '\uffff', '😀'), true],
  [not(0), false],
  [not(''), false],
  [not(null), true],
  [not(false), true],
  [{ op: 'and', args: [] }, true],
  [{ op: 'or', args: [] }, false],
  [{ op: 'and', args: [lit(1), lit('x')] }, true],
  [{ op: 'and', args: [lit(null), broken] }, false],
  [{ op: 'or', args: [lit(0), broken] }, true],
  [exists(path('$.a')), true],
  [exists(path('$.n')), false],
  [exists(path('$.a.b.c')), false],
  [exists(path('$.l.0')), false],
  [exists(path('$.l.length')), false],
  [exists(path('$.toString')), false],
  [exists(lit(false)), true],
  [two('add', 2, 3), 5],
  [two('sub', raw('2.5'), 1), 1.5],
  [two('mul', -1, 0), 0],
  [two('div', 10, 4), 2.5],
  [two('mod', -7, 3), 2],
  [two('mod', 7, -3), -2],
  [two('mod', -6, 3), 0],
  [len('héllo😀'), 6],
  [len([1, 2]), 2],
  [len(raw('{"a":1,"__proto__":2}')), 2],
  [has(5, [4, raw('5.0')]), true],
  [has('5', [5]), false],
  [has({ a: 1 }, [{ a: 1 }]), true],
])('%j', (expr, expected) => expect(value(expr)).toStrictEqual(expected));

test.each<[Expr, string]>([
  [path('$.a.x'), 'path not found: $.a.x'],
  [path('$.constructor'), 'path not found: $.constructor'],
  [two('lt', 1, 'b'), 'lt needs two numbers or strings, not number and string'],
  [two('gte', true, false), 'gte needs two numbers or strings, not boolean and boolean'],
  [two('add', '1', 1), 'add needs two numbers, not string and number'],
  [two('mul', null, raw('1.0')), 'mul needs two numbers, not null and number'],
  [two('div', 1, 0), 'div by zero'],
  [two('mod', 1, raw('0.0')), 'mod by zero'],
  [two('mul', 1e308, 10), 'mul of 1e+308 and 10 is outside the range of a number'],
  [len(raw('5.0')), 'len needs an array, a string or an object, not number'],
  [has(1, '123'), 'in needs an array as its haystack, not string'],
  [{ op: 'call_extern', ref: 'f', args: [] }, 'call_extern "f": there are no host functions to call'],
  [exists(broken), 'div by zero'],
])('%j is an error', (expr, message) => expect(() => value(expr)).toThrow(message));
