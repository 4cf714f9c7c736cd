/** Random flows, and answers that depend on nothing but the place of the step. */
import fc from 'fast-check';
import type { Expr, FanoutNode, FlowNode } from '../../lib/blueprint/flow-schema.ts';
import type { JsonValue } from '../../lib/json.ts';
import { type Answer, assign, lit, path, seq } from './driver.ts';

/** Freezes a value at every level, so that a change of it throws. */
export function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(freeze);
  }
  return value;
}

/** A context in which most places of these flows have a value. */
export const CTX: JsonValue = freeze({
  a: { c: { d: 1 } },
  b: { c: { d: [1] } },
  item: 0,
  out: { x: null },
  e: 'e',
});

const place = fc.constantFrom('$.a', '$.b', '$.a.c', '$.b.c.d', '$.item', '$.out', '$.out.x', '$.e', '$');
const target = fc.oneof({ weight: 8, arbitrary: place.filter((at) => at !== '$') }, place).map(path);
const literal = fc.constantFrom<JsonValue>(1, 'x', null, { c: 1 }, { c: { d: [1] } }, [1, 2]).map(lit);
const expression: fc.Arbitrary<Expr> = fc.oneof(
  { weight: 3, arbitrary: literal },
  { weight: 2, arbitrary: place.map(path) },
);
const condition: fc.Arbitrary<Expr> = fc.oneof(
  { weight: 6, arbitrary: place.map((at): Expr => ({ op: 'exists', arg: path(at) })) },
  { weight: 2, arbitrary: fc.boolean().map(lit) },
  { weight: 1, arbitrary: expression },
);
const items = fc.oneof(
  { weight: 6, arbitrary: fc.constantFrom<JsonValue>([1], [1, 2], [{ c: 1 }, 'y', null]).map(lit) },
  { weight: 1, arbitrary: fc.constant(lit([])) },
  { weight: 1, arbitrary: expression },
);

/** Flows of a few nodes of every kind, with fanouts of the given joins. */
export function flows(joins: readonly FanoutNode['join'][]): fc.Arbitrary<FlowNode> {
  const { node } = fc.letrec<{ node: FlowNode; leaf: FlowNode }>((tie) => ({
    leaf: fc.oneof(
      {
        weight: 3,
        arbitrary: fc.record({
          kind: fc.constant('step' as const),
          ref: fc.constantFrom('p', 'q'),
          in: expression,
          out: target,
        }),
      },
      { weight: 1, arbitrary: fc.tuple(place, expression).map(([at, value]) => assign(at, value)) },
    ),
    node: fc.oneof(
      { maxDepth: 6, depthSize: 'large' },
      { weight: 2, arbitrary: tie('leaf') },
      {
        weight: 3,
        arbitrary: fc.array(tie('node'), { maxLength: 3, size: 'max' }).map((children) => seq(...children)),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant('branch' as const),
          cond: condition,
          then: tie('node'),
          else: tie('node'),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          kind: fc.constant('loop' as const),
          counter: fc.constantFrom('$.n', '$.b.n').map(path),
          cond: condition,
          body: tie('node'),
          max: fc.nat({ max: 3 }),
        }),
      },
      {
        weight: 3,
        arbitrary: fc.record({
          kind: fc.constant('fanout' as const),
          items,
          bind: fc.constantFrom('$.item', '$.a.item').map(path),
          body: tie('node'),
          join: fc.constantFrom(...joins),
          out: target,
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          kind: fc.constant('try' as const),
          body: tie('node'),
          catch: tie('node'),
          err_at: fc.option(target),
        }),
      },
    ),
  }));
  return fc.tuple(node, node).map((nodes) => seq(...nodes));
}

/** Whole numbers that look random, from a seed and a text. */
export function mix(seed: number, text: string): number {
  let hash = seed | 0;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

/** A choice among the outstanding steps that looks random. */
export function chooser(seed: number): (count: number) => number {
  let calls = 0;
  return (count) => mix(seed, String(calls++)) % count;
}

const VALUES: readonly JsonValue[] = [{ c: 1 }, { c: { d: 2 }, e: [] }, 'text', '{"c":{}}', 7, null, [1]];

export function answerAt(seed: number, position: string): Answer {
  const dice = mix(seed, position);
  if (dice % 5 === 0) return { blocked: `no ${position}` };
  if (dice % 11 === 0) return { error: `broken ${position}` };
  return { pass: VALUES[dice % VALUES.length]! };
}
