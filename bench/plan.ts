/** Flows: replay of a wide fan-out and of a long sequence. */
import type { FlowNode } from '../lib/blueprint/flow-schema.ts';
import { plan } from '../lib/flow/plan.ts';
import { startFlow } from '../lib/flow/run.ts';
import type { StepResult } from '../lib/flow/step-result.ts';
import { compare, type Measured, time } from './measure.ts';

const at = (path: string) => ({ op: 'path', at: path }) as const;

export async function measure(): Promise<readonly Measured[]> {
  return [
    await compare({
      what: 'fan-out of 10,000 lanes against 1,000, step by step',
      goal: 12,
      ours: () => live(fanout(10_000)),
      floor: () => live(fanout(1000)),
      rounds: 5,
    }),
    await compare({
      what: 'sequence of 10,000 steps against 1,000, step by step',
      goal: 12,
      ours: () => live(sequence(10_000)),
      floor: () => live(sequence(1000)),
      rounds: 5,
    }),
    await compare({
      what: 'replay of 10,000 lanes against 1,000',
      goal: 12,
      ours: () => replay(fanout(10_000)),
      floor: () => replay(fanout(1000)),
      rounds: 5,
    }),
  ];
}

function fanout(width: number): FlowNode {
  const items = { op: 'lit', value: Array.from({ length: width }, (_, i) => i) } as const;
  const body = { kind: 'step', ref: 'a', in: at('$.i'), out: at('$.r') } as const;
  return { kind: 'fanout', items, bind: at('$.i'), body, join: 'all', out: at('$.all') };
}

function sequence(length: number): FlowNode {
  const children = Array.from(
    { length },
    (_, i) => ({ kind: 'step', ref: 'a', in: at('$.last'), out: at(`$.s${i}`) }) as const,
  );
  return { kind: 'seq', children };
}

const result: StepResult = {
  status: 'passed',
  value: { ok: true },
  completed_at: '2026-01-01T00:00:00.000000Z',
};
const start = { ctx: { last: 'x' }, metas: new Map() };

/** Feeds every result as soon as its step is planned. */
function live(flow: FlowNode): number {
  return time(() => {
    const run = startFlow({ flow, ...start });
    for (let pending = run.pending(); pending.length > 0; pending = run.pending()) {
      for (const { position } of pending) run.settle(position, result);
    }
    if (run.status.status !== 'done') throw new Error('the benchmark flow is not done');
  });
}

/** One plan over all results. */
function replay(flow: FlowNode): number {
  const results = new Map<string, StepResult>();
  const run = startFlow({ flow, ...start });
  for (const { position } of run.pending()) results.set(position, result);
  return time(() => {
    if (plan({ flow, ...start, results, decisions: new Map() }).status !== 'done')
      throw new Error('the replay is not done');
  });
}
