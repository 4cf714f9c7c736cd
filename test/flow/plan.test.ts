import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { FlowNode } from '../../lib/blueprint/flow-schema.ts';
import { type Plan, plan } from '../../lib/flow/plan.ts';
import type { FlowStatus } from '../../lib/flow/run.ts';
import type { StepResult } from '../../lib/flow/step-result.ts';
import type { JsonValue } from '../../lib/json.ts';
import { answerAt, CTX, chooser, flows, freeze, mix } from './arbitrary.ts';
import { isSmall, type Live, lit, path, resultOf, runLive, SMALL, stamp, step } from './driver.ts';

const planOf = (flow: FlowNode, results: Map<string, StepResult>, decisions = new Map<string, number>()) =>
  plan({ flow, ctx: CTX, metas: new Map(), results, decisions });

/** What must be equal between a live run and its replays. */
function outcome(status: FlowStatus | Plan) {
  if (status.status === 'failed') {
    const { message, failed_step, verdict_value } = status.error;
    return { message, failed_step, verdict_value };
  }
  return status.status === 'done' ? { ctx: status.ctx } : status;
}

describe('a random flow with random completions', () => {
  const joins = ['all', 'all_settled', 'any', 'race'] as const;
  const runs = fc
    .record({
      flow: flows(joins),
      seed: fc.nat(),
      order: fc.nat(),
      skewed: fc.boolean(),
    })
    .map(({ flow, seed, order, skewed }) => {
      const live = runLive({
        flow: freeze(flow),
        ctx: CTX,
        answer: ({ position }) => freeze(answerAt(seed, position)),
        choose: chooser(order),
        limit: SMALL.results,
        completedAt: (n) => stamp(skewed ? mix(seed, String(n)) % 10 : n),
      });
      return { flow, live, skewed };
    })
    .filter(({ live }) => isSmall(live));
  const resultsOf = ({ log }: Live, count = log.length) =>
    new Map(log.slice(0, count).map(({ position, result }) => [position, result]));
  const check = (property: (run: { flow: FlowNode; live: Live; skewed: boolean }) => void) =>
    fc.assert(fc.property(runs, property), { numRuns: 500 });

  test('replays every prefix of its results to the same steps', () => {
    check(({ flow, live }) => {
      for (const [i, entry] of live.log.entries()) {
        const replay = planOf(flow, resultsOf(live, i), new Map(entry.decisions));
        expect(replay).toMatchObject({ status: 'dispatch', decisions: new Map() });
        if (replay.status === 'dispatch') {
          const byPosition = new Map(replay.steps.map((planned) => [planned.position, planned]));
          expect(byPosition).toEqual(
            new Map(entry.outstanding.map((planned) => [planned.position, planned])),
          );
        }
      }
    });
  });

  test('goes on from every prefix to the same end', () => {
    check(({ flow, live, skewed }) => {
      for (let start = 0; start <= live.log.length; start++) {
        const decisions = new Map(live.log[start]?.decisions ?? live.decisions);
        let replay = planOf(flow, resultsOf(live, start), decisions);
        for (let count = start + 1; count <= live.log.length; count++) {
          for (const [at, lane] of replay.decisions) decisions.set(at, lane);
          replay = planOf(flow, resultsOf(live, count), decisions);
        }
        if (!skewed) expect(outcome(replay)).toEqual(outcome(live.status));
        for (const [at, lane] of replay.decisions) decisions.set(at, lane);
        expect(outcome(planOf(flow, resultsOf(live), decisions))).toEqual(outcome(replay));
      }
    });
  });

  test('replays all results at once to the same end, late results of dropped steps included', () => {
    check(({ flow, live, skewed }) => {
      const results = resultsOf(live);
      const late = resultOf({ pass: 'late' }, skewed ? stamp(0) : stamp(1_000_000));
      for (const position of live.dropped) results.set(position, late);
      const decided = planOf(flow, results, new Map(live.decisions));
      expect(outcome(decided)).toEqual(outcome(live.status));
      expect(decided.decisions).toEqual(new Map());
      if (skewed) return;
      const undecided = planOf(flow, results);
      expect(outcome(undecided)).toEqual(outcome(live.status));
      expect(undecided.decisions).toEqual(live.decisions);
    });
  });
});

const race: FlowNode = {
  kind: 'fanout',
  items: lit([1, 2, 3]),
  bind: path('$.item'),
  body: step('a', path('$.item'), '$.r'),
  join: 'race',
  out: path('$'),
};
const at = (n: number, value: JsonValue = n) => resultOf({ pass: value }, stamp(n));

test('without a decision the earliest completion counts, whatever the order of the results', () => {
  const results = new Map([
    ['/body/0', at(9)],
    ['/body/2', at(5)],
    ['/body/1', at(5)],
  ]);
  expect(planOf(race, results)).toMatchObject({
    status: 'done',
    ctx: { item: 2, r: 5 },
    decisions: new Map([['', 1]]),
  });
});

test('with a decision only the deciding lane is run', () => {
  const steps = [{ position: '/body/2', ref: 'a', in: 3, step_ctx: null }];
  const decisions = new Map([['', 2]]);
  expect(planOf(race, new Map([['/body/0', at(1)]]), decisions)).toEqual({
    status: 'dispatch',
    steps,
    decisions: new Map(),
  });
  expect(planOf(race, new Map([['/body/2', at(1)]]), decisions)).toMatchObject({ status: 'done' });
});

test('a decision that a new attempt has overtaken opens the other lanes of an all', () => {
  const all: FlowNode = { ...race, join: 'all', out: path('$.out') };
  const decisions = new Map([['', 1]]);
  const first = planOf(all, new Map([['/body/1', at(1, 'now passes')]]), decisions);
  expect(first.status === 'dispatch' && first.steps.map(({ position }) => position)).toEqual([
    '/body/0',
    '/body/2',
  ]);
  const results = new Map([0, 1, 2].map((i) => [`/body/${i}`, at(i)]));
  expect(planOf(all, results, decisions)).toMatchObject({
    status: 'done',
    ctx: { out: [{ r: 0 }, { r: 1 }, { r: 2 }] },
    decisions: new Map(),
  });
});

test('a decision for a lane that does not exist is no decision', () => {
  expect(planOf(race, new Map(), new Map([['', 3]]))).toMatchObject({ steps: [{}, {}, {}] });
});

test('10,000 results at once are taken in order', () => {
  const items = Array.from({ length: 10_000 }, (_, i) => i);
  const flow: FlowNode = { ...race, items: lit(items) };
  const results = new Map(items.map((i) => [`/body/${i}`, at(mix(1, String(i)) + 1, i)]));
  results.set('/body/7777', at(0, 7777));
  expect(planOf(flow, results)).toMatchObject({ status: 'done', ctx: { item: 7777, r: 7777 } });
});
