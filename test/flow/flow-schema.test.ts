import { expect, test } from 'vitest';
import { Expr, FlowNode } from '../../lib/blueprint/flow-schema.ts';
import { checkSchema } from '../../lib/blueprint/schema-issues.ts';
import { type JsonValue, parseJson } from '../../lib/json.ts';
import { lit, path, seq, step } from './driver.ts';

const issuesOf = (schema: typeof FlowNode | typeof Expr, value: unknown) =>
  checkSchema(schema, value as JsonValue).map(({ path: at, message }) => [at.slice(1), message]);
const one = lit(1);
const nodes = {
  step: step('a', one, '$.x'),
  seq: seq(),
  branch: { kind: 'branch', cond: one, then: seq(), else: seq() },
  loop: { kind: 'loop', counter: path('$.n'), cond: one, body: seq(), max: 3 },
  fanout: {
    kind: 'fanout',
    items: one,
    bind: path('$.i'),
    body: seq(),
    join: 'all_settled',
    out: path('$.o'),
  },
  try: { kind: 'try', body: seq(), catch: seq(), err_at: path('$.e') },
  assign: { kind: 'assign', at: path('$.x'), value: one },
  let: { kind: 'let', at: 'ctx.x', value: one },
};

test.each(Object.entries(nodes))('%s is read as it is written', (_kind, node) => {
  expect(FlowNode.parse(node)).toEqual(node);
});

test.each(Object.entries(nodes))('every field of %s is required, none is added', (_kind, node) => {
  for (const key of Object.keys(node).filter((name) => name !== 'err_at')) {
    const rest = Object.fromEntries(Object.entries(node).filter(([name]) => name !== key));
    expect(issuesOf(FlowNode, rest)).not.toEqual([]);
  }
  expect(issuesOf(FlowNode, { ...node, bogus: 1 })).toEqual([
    ['bogus', expect.stringContaining("unknown field 'bogus'; known: kind, ")],
  ]);
});

test.each([
  lit(null),
  path('$["a.b"]'),
  ...['eq', 'ne', 'lt', 'lte', 'gt', 'gte', 'add', 'sub', 'mul', 'div', 'mod'].map((op) => ({
    op,
    lhs: one,
    rhs: one,
  })),
  ...['not', 'exists', 'len'].map((op) => ({ op, arg: one })),
  ...['and', 'or'].map((op) => ({ op, args: [one] })),
  { op: 'in', needle: one, haystack: one },
  { op: 'call_extern', ref: 'f', args: [] },
])('$op is read as it is written and closed', (expr) => {
  expect(Expr.parse(expr)).toEqual(expr);
  expect(issuesOf(Expr, { ...expr, bogus: 1 })).not.toEqual([]);
  for (const key of Object.keys(expr)) {
    const rest = Object.fromEntries(Object.entries(expr).filter(([name]) => name !== key));
    expect(issuesOf(Expr, rest)).not.toEqual([]);
  }
});

test('unknown kinds and ops are refused with the closed list', () => {
  expect(issuesOf(FlowNode, { kind: 'nope' })[0]?.[1]).toContain('"step", "seq"');
  expect(issuesOf(FlowNode, { ...nodes.assign, value: { op: 'nope' } })[0]).toEqual([
    'value/op',
    expect.stringContaining('"lit", "path"'),
  ]);
});

test.each([
  ['step', 'out'],
  ['fanout', 'out'],
  ['fanout', 'bind'],
  ['loop', 'counter'],
  ['try', 'err_at'],
  ['assign', 'at'],
] as const)('the write target of %s %s must be a path expression', (kind, field) => {
  expect(issuesOf(FlowNode, { ...nodes[kind], [field]: lit('$.x') })).toEqual([
    [field, `${field} must be a path expression such as {"op":"path","at":"$.x"}, not op "lit"`],
  ]);
});

test('path syntax is checked at load', () => {
  expect(issuesOf(Expr, path('$.a.'))).toEqual([['at', expect.stringContaining('"$.a." is not a path')]]);
  expect(issuesOf(FlowNode, { ...nodes.let, at: 'x' })).toEqual([
    ['at', expect.stringContaining('must start with $ or ctx')],
  ]);
});

test('max is a whole number of 32 bits in any spelling', () => {
  expect(FlowNode.parse({ ...nodes.loop, max: parseJson('2.0') })).toMatchObject({ max: 2 });
  expect(issuesOf(FlowNode, { ...nodes.loop, max: 4294967295 })).toEqual([]);
  for (const max of [-1, 1.5, 4294967296, '1', null])
    expect(issuesOf(FlowNode, { ...nodes.loop, max })).not.toEqual([]);
});

test('a literal keeps its digits and its keys', () => {
  const value = parseJson('{"__proto__":{"a":1.0},"n":9007199254740993}');
  expect(Expr.parse(lit(value))).toEqual(lit(value));
  expect(issuesOf(FlowNode, JSON.parse('{"kind":"seq","children":[],"__proto__":1}'))).not.toEqual([]);
});
