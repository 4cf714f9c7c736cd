import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Expr, FanoutNode, FlowNode } from '../../lib/blueprint/flow-schema.ts';
import { startFlow } from '../../lib/flow/run.ts';
import type { JsonValue } from '../../lib/json.ts';
import { answerAt, CTX, chooser, flows, freeze } from './arbitrary.ts';
import { type Answer, assign, type Live, lit, path, resultOf, runLive, seq, stamp, step } from './driver.ts';
import { interpret } from './interpreter.ts';

/** Answers by ref, one after the other; the last repeats. */
const scripted = (answers: Record<string, Answer[]>) => {
  const counts = new Map<string, number>();
  return ({ ref }: { ref: string }): Answer => {
    const n = counts.get(ref) ?? 0;
    counts.set(ref, n + 1);
    const list = answers[ref] ?? [];
    return list[Math.min(n, list.length - 1)] ?? { pass: ref };
  };
};
const run = (flow: FlowNode, answers: Record<string, Answer[]> = {}, ctx: JsonValue = {}): Live =>
  runLive({ flow, ctx, answer: scripted(answers) });
const ctxOf = ({ status }: Live) => (status.status === 'done' ? status.ctx : status);
const errorOf = ({ status }: Live) => (status.status === 'failed' ? status.error : status);
const loop = (max: number, cond: Expr, body: FlowNode): FlowNode => ({
  kind: 'loop',
  counter: path('$.n'),
  cond,
  body,
  max,
});
const attempt = (body: FlowNode, otherwise: FlowNode = seq(), err?: string): FlowNode => ({
  kind: 'try',
  body,
  catch: otherwise,
  ...(err && { err_at: path(err) }),
});
const fanout = (join: FanoutNode['join'], body: FlowNode, items: Expr = lit([1, 2])): FlowNode => ({
  kind: 'fanout',
  items,
  bind: path('$.item'),
  body,
  join,
  out: path('$.out'),
});
const one = lit(1);
const a = step('a', one, '$.a');
const blockedText = (ref: string, json: string) =>
  `dispatcher error for ref '${ref}': dispatcher error for ref '${ref}': blocked: ${json}`;

const body = step('a', path('$.item'), '$.r');

describe('step', () => {
  test('hands out its input and writes its value', () => {
    const live = run(step('a', path('$.x'), '$.y'), { a: [{ pass: 5 }] }, { x: { k: 1 } });
    expect(live.calls).toEqual([{ position: '', ref: 'a', in: { k: 1 }, step_ctx: null }]);
    expect(ctxOf(live)).toEqual({ x: { k: 1 }, y: 5 });
  });

  test('has its $step_meta taken out', () => {
    const input = lit({ $step_meta: { ref: 'm' }, $in: 'go' });
    const flow = step('a', input, '$.y');
    const live = runLive({ flow, metas: new Map([['m', { k: 1 }]]), answer: () => ({ pass: 1 }) });
    expect(live.calls).toEqual([{ position: '', ref: 'a', in: 'go', step_ctx: { k: 1 } }]);
  });

  test('folds a string that holds JSON, unless told not to', () => {
    expect(ctxOf(run(a, { a: [{ pass: '{"k":1}' }] }))).toEqual({ a: { k: 1 } });
    const flow = startFlow({ flow: a, ctx: {}, metas: new Map() });
    flow.settle('', { status: 'passed', value: '{"k":1}', fold: false, completed_at: stamp(0) });
    expect(flow.status).toEqual({ status: 'done', ctx: { a: '{"k":1}' } });
  });

  test('that is blocked ends the run with its value', () => {
    expect(errorOf(run(seq(a, a), { a: [{ pass: 1 }, { blocked: { b: 1, a: '' } }] }))).toEqual({
      message: blockedText('a', '{"a":"","b":1}'),
      failed_step: 'a',
      verdict_value: { b: 1, a: '' },
      positions: ['/children/1'],
    });
  });

  test('that failed ends the run with its message', () => {
    expect(errorOf(run(a, { a: [{ error: 'gone' }] }))).toEqual({
      message:
        "dispatcher error for ref 'a': dispatcher error for ref 'a': dispatch_attempt: dispatch failed: gone",
      failed_step: 'a',
      positions: [''],
    });
  });

  test('that cannot be given its input, or stored, is an error of the flow', () => {
    const missing = run(step('a', path('$.x'), '$.y'));
    expect(missing.calls).toEqual([]);
    expect(errorOf(missing)).toEqual({ message: 'path not found: $.x', positions: [] });
    expect(errorOf(run(step('a', lit({ $step_meta: 1 }), '$.y')))).toEqual({
      message: '$step_meta must be an object, not number',
      positions: [],
    });
    expect(errorOf(run(step('a', one, '$.x.y'), {}, { x: 1 }))).toEqual({
      message: 'cannot write $.x.y: $.x is not an object but number',
      positions: [],
    });
  });
});

describe('branch', () => {
  const branch = (cond: Expr): FlowNode => ({
    kind: 'branch',
    cond,
    then: assign('$.r', lit('then')),
    else: assign('$.r', lit('else')),
  });
  test('takes the side of a boolean and refuses anything else', () => {
    expect(ctxOf(run(branch(lit(true))))).toEqual({ r: 'then' });
    expect(ctxOf(run(branch(lit(false))))).toEqual({ r: 'else' });
    for (const value of [null, 1, 'true', []])
      expect(errorOf(run(branch(lit(value))))).toMatchObject({
        message: expect.stringContaining('must be boolean'),
      });
  });
});

describe('loop', () => {
  test('counts rounds from zero while its condition is truthy', () => {
    const cond: Expr = { op: 'lt', lhs: path('$.n'), rhs: lit(2) };
    const live = run(loop(9, cond, step('a', path('$.n'), '$.a')));
    expect(ctxOf(live)).toEqual({ n: 2, a: 'a' });
    expect(live.calls.map(({ position, in: input }) => [position, input])).toEqual([
      ['/body/0', 0],
      ['/body/1', 1],
    ]);
  });

  test('ends at max, which may be zero, and trusts its own count', () => {
    expect(ctxOf(run(loop(2, lit('yes'), assign('$.n', lit(50)))))).toEqual({ n: 2 });
    expect(ctxOf(run(loop(0, lit(true), a)))).toEqual({ n: 0 });
    expect(ctxOf(run(loop(2, lit(null), a)))).toEqual({ n: 0 });
  });

  test('without steps or end is stopped, also inside a try', () => {
    const endless = attempt(loop(4_294_967_295, lit(true), seq()));
    expect(errorOf(run(endless))).toEqual({
      message: 'flow evaluated 10000000 nodes without finishing',
      positions: [],
    });
  });
});

describe('try', () => {
  const b = step('b', one, '$.deep.b');
  test('undoes the body, stores the message and runs catch', () => {
    const body = seq(step('a', one, '$.deep.a'), assign('$.k', lit(2)), b);
    const flow = attempt(body, step('c', path('$.deep'), '$.c'), '$.err');
    const ctx = { k: 1, deep: { x: 1 } };
    const answers = { a: [{ pass: { v: 1 } }], b: [{ blocked: 'no' }] };
    expect(ctxOf(run(flow, answers, ctx))).toEqual({ ...ctx, err: blockedText('b', '"no"'), c: 'c' });
  });

  test('keeps the writes of a body that passes', () => {
    expect(ctxOf(run(attempt(seq(a, b), seq(), '$.err')))).toEqual({ a: 'a', deep: { b: 'b' } });
  });

  test('passes on an error of catch, and of err_at before catch runs', () => {
    const failing = { b: [{ blocked: 1 }], c: [{ error: 'c' }] };
    expect(errorOf(run(attempt(b, step('c', one, '$.c')), failing))).toMatchObject({ failed_step: 'c' });
    const live = run(attempt(attempt(b, a, '$.k.err'), seq(), '$.outer'), failing, { k: 1 });
    expect(live.calls.map(({ ref }) => ref)).toEqual(['b']);
    expect(ctxOf(live)).toMatchObject({ outer: expect.stringContaining('cannot write $.k.err') });
  });

  test('catches the errors of fanouts inside and lets them share the context safely', () => {
    const body = seq(assign('$.deep.y', lit(2)), fanout('all', step('a', path('$.deep'), '$.deep.r')), b);
    const live = run(
      attempt(body, step('c', path('$.deep'), '$.c')),
      { b: [{ blocked: 1 }] },
      { deep: { x: 1 } },
    );
    expect(live.calls.map(({ in: input }) => input)).toEqual([{ x: 1, y: 2 }, { x: 1, y: 2 }, 1, { x: 1 }]);
    expect(ctxOf(live)).toEqual({ deep: { x: 1 }, c: 'c' });
  });
});

describe('assign and let', () => {
  test('write a value that later writes do not reach', () => {
    const flow = seq(
      assign('$.a.x', one),
      { kind: 'let', at: 'ctx.b', value: path('$.a') },
      assign('$.a.x', lit(2)),
      assign('$.b.y', lit(3)),
    );
    expect(ctxOf(run(flow))).toEqual({ a: { x: 2 }, b: { x: 1, y: 3 } });
  });
});

describe('fanout', () => {
  test('gives every lane a copy of the context and its item', () => {
    const live = run(fanout('all', body), {}, { k: 1 });
    expect(live.calls.map(({ position, in: input }) => [position, input])).toEqual([
      ['/body/0', 1],
      ['/body/1', 2],
    ]);
    expect(ctxOf(live)).toEqual({
      k: 1,
      out: [
        { k: 1, item: 1, r: 'a' },
        { k: 1, item: 2, r: 'a' },
      ],
    });
  });

  test('all: ends with the first error and drops the others', () => {
    const live = run(seq(attempt(fanout('all', body, lit([1, 2, 3])), a, '$.err')), {
      a: [{ pass: 1 }, { blocked: 'bad' }, { pass: 'caught' }],
    });
    expect(live.dropped).toEqual(['/children/0/body/body/2']);
    expect([...live.decisions]).toEqual([['/children/0/body', 1]]);
    expect(ctxOf(live)).toEqual({ err: blockedText('a', '"bad"'), a: 'caught' });
  });

  test('all_settled: records every outcome', () => {
    expect(ctxOf(run(fanout('all_settled', body), { a: [{ pass: 'x' }, { blocked: 'bad' }] }))).toEqual({
      out: [
        { status: 'fulfilled', value: { item: 1, r: 'x' } },
        { status: 'rejected', reason: blockedText('a', '"bad"') },
      ],
    });
  });

  test('any: takes the first that passes; none is the last error, and all positions', () => {
    const live = run(fanout('any', body, lit([1, 2, 3])), { a: [{ blocked: 1 }, { pass: 'x' }] });
    expect(ctxOf(live)).toEqual({ out: { item: 2, r: 'x' } });
    expect([live.dropped, ...live.decisions]).toEqual([['/body/2'], ['', 1]]);
    expect(errorOf(run(fanout('any', body), { a: [{ blocked: 1 }, { blocked: 2 }] }))).toEqual({
      message: blockedText('a', '2'),
      failed_step: 'a',
      verdict_value: 2,
      positions: ['/body/0', '/body/1'],
    });
  });

  test('race: takes the first to settle, an error too', () => {
    const flow = fanout('race', body);
    const won = runLive({ flow, choose: (count) => count - 1, answer: () => ({ pass: 'a' }) });
    expect(ctxOf(won)).toEqual({ out: { item: 2, r: 'a' } });
    expect([...won.decisions]).toEqual([['', 1]]);
    expect(errorOf(run(flow, { a: [{ error: 'x' }] }))).toMatchObject({ positions: ['/body/0'] });
  });

  test('race: a lane without steps wins at once, with nothing to decide and nothing to dispatch', () => {
    const branch: FlowNode = {
      kind: 'branch',
      cond: { op: 'eq', lhs: path('$.item'), rhs: lit(2) },
      then: seq(),
      else: body,
    };
    const live = run(fanout('race', branch));
    expect([live.calls, [...live.decisions], ctxOf(live)]).toEqual([[], [], { out: { item: 2 } }]);
  });

  test('drops what waits inside the fanouts of a lane that lost', () => {
    const inner = fanout('all', body, lit([1, 2]));
    const flow = fanout(
      'race',
      { kind: 'branch', cond: path('$.item'), then: inner, else: a },
      lit([true, false]),
    );
    const live = runLive({ flow, answer: () => ({ pass: 1 }) });
    expect(live.dropped).toEqual(['/body/0/then/body/0', '/body/0/then/body/1']);
    expect(ctxOf(live)).toEqual({ out: { item: false, a: 1 } });
  });

  test.each([
    ['all', { out: [] }],
    ['all_settled', { out: [] }],
  ] as const)('%s of nothing is the empty list', (join, ctx) => {
    expect(ctxOf(run(fanout(join, body, lit([]))))).toEqual(ctx);
  });

  test.each(['any', 'race'] as const)('%s of nothing is an error', (join) => {
    expect(errorOf(run(fanout(join, body, lit([]))))).toMatchObject({
      message: `a fanout with join ${join} needs at least one item`,
    });
  });

  test('needs an array and a place for its item', () => {
    expect(errorOf(run(fanout('all', body, lit({ a: 1 }))))).toMatchObject({
      message: 'the items of a fanout must be an array, not object',
    });
    expect(errorOf(run(fanout('all_settled', body), {}, 'text'))).toMatchObject({
      message: expect.stringContaining('$ is not an object but string'),
    });
  });

  test('does not open lanes without bound', () => {
    const many = lit(Array.from({ length: 500 }, () => 1));
    expect(errorOf(run(fanout('all', fanout('all', a, many), many)))).toMatchObject({
      message: 'fanout of 500 items would open over 250000 lanes at a time',
    });
  });

  test('later writes of the owner do not reach the lanes’ contexts', () => {
    const flow = seq(assign('$.k.x', one), fanout('all', seq(), lit([1])), assign('$.k.x', lit(2)));
    expect(ctxOf(run(flow))).toEqual({ k: { x: 2 }, out: [{ k: { x: 1 }, item: 1 }] });
  });
});

describe('a run', () => {
  test('ignores results for steps that do not wait', () => {
    const flow = startFlow({ flow: seq(a, a), ctx: {}, metas: new Map() });
    const result = resultOf({ pass: 1 }, stamp(0));
    flow.settle('/nowhere', result);
    flow.settle('/children/0', result);
    flow.settle('/children/0', result);
    expect(flow.status).toEqual({ status: 'running' });
    expect(flow.pending().map(({ position }) => position)).toEqual(['/children/1']);
    flow.settle('/children/1', result);
    flow.settle('/children/1', result);
    expect(flow.status).toEqual({ status: 'done', ctx: { a: 1 } });
  });

  test('refuses an initial context that is nested too deeply', () => {
    let ctx: JsonValue = 1;
    for (let i = 0; i < 100_000; i++) ctx = [ctx];
    expect(errorOf(run(a, {}, ctx))).toMatchObject({ message: expect.stringContaining('deeper than 1000') });
  });

  test('treats names of the prototype as data', () => {
    const flow = seq(
      step('__proto__', one, '$.__proto__.x'),
      step('a', path('$.__proto__'), '$.constructor'),
    );
    const live = run(flow);
    expect(JSON.stringify(live.calls.at(-1)?.in)).toBe('{"x":"__proto__"}');
    expect(JSON.stringify(ctxOf(live))).toBe('{"__proto__":{"x":"__proto__"},"constructor":"a"}');
  });

  test('of 10,000 steps and of 10,000 lanes takes work in proportion', () => {
    const steps = Array.from({ length: 10_000 }, (_, i) => step('a', one, `$.k${i}`));
    const tries = steps.map((node) => attempt(node));
    for (const flow of [seq(...steps), seq(...tries), fanout('all', body, lit(steps.map((_, i) => i)))]) {
      const live = startFlow({ flow, ctx: {}, metas: new Map() });
      let count = 0;
      for (let ready = live.pending(); ready.length > 0; ready = live.pending()) {
        for (const { position } of ready) live.settle(position, resultOf({ pass: 1 }, stamp(count++)));
      }
      expect([count, live.status.status]).toEqual([10_000, 'done']);
    }
  });
});

test('gives what a plain interpreter on deep copies gives, and changes none of its inputs', () => {
  fc.assert(
    fc.property(flows(['all_settled']), fc.nat(), fc.nat(), (flow, seed, order) => {
      const handedOut: string[] = [];
      const expected = interpret(flow, CTX, (position) => answerAt(seed, position));
      fc.pre(expected !== 'too large');
      const live = runLive({
        flow: freeze(flow),
        ctx: CTX,
        answer: (call) => {
          handedOut.push(JSON.stringify(call));
          return freeze(answerAt(seed, call.position));
        },
        choose: chooser(order),
      });
      const { status } = live;
      const outcome = status.status === 'failed' ? { error: status.error.message } : { ctx: ctxOf(live) };
      expect(outcome).toEqual(expected);
      expect(live.calls.map((call) => JSON.stringify(call)).sort()).toEqual(handedOut.sort());
    }),
    { numRuns: 1000 },
  );
});
