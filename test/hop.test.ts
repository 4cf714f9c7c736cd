/** Hops of one run by several processes: whoever plans, the run comes to the same, and little is read again. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test, vi } from 'vitest';
import type { JsonObject } from '../lib/json.ts';
import { startRun } from '../lib/start-run.ts';
import { folderStore } from '../lib/store/folder.ts';
import { readResult, storeResult } from '../lib/store/result-store.ts';
import { newestRound } from '../lib/store/run-store.ts';
import type { TaskResult } from '../lib/task.ts';
import { sampleResult } from './store/contract.ts';
import { shellAgents } from './support/documents.ts';
import { faultyStore } from './support/faulty-store.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
type PlanHop = typeof import('../lib/hop.ts').planHop;

/** What a process of its own plans with: nothing is kept from others. */
async function newProcess(): Promise<PlanHop> {
  vi.resetModules();
  return (await import('../lib/hop.ts')).planHop;
}

const path = (at: string): JsonObject => ({ op: 'path', at });

/** A loop of fan-outs whose fastest lane wins, each followed by one step. */
function document(rounds: number): JsonObject {
  const items = { op: 'lit', value: [0, 1, 2] };
  const race = {
    kind: 'fanout',
    items,
    bind: path('$.i'),
    body: { kind: 'step', ref: 'a', in: path('$.i'), out: path('$.r') },
    join: 'any',
    out: path('$.won'),
  };
  const body = {
    kind: 'seq',
    children: [race, { kind: 'step', ref: 'a', in: path('$.won.r'), out: path('$.last') }],
  };
  return shellAgents(
    { a: 'true' },
    { kind: 'loop', counter: path('$.n'), cond: { op: 'lit', value: true }, body, max: rounds },
  );
}

/** Drives a run; `planners` take turns, `settle` puts results into the store. Returns the store's calls of each hop. */
async function drive(
  planners: readonly (() => Promise<PlanHop>)[],
  settle: (ids: readonly string[], put: (id: string) => Promise<unknown>) => Promise<void>,
) {
  const store = faultyStore(folderStore(mkdtempSync(join(folder, 'store-'))), () => undefined);
  await startRun({ run_id: 'R-1', blueprint: document(60), ctx: {} }, store);
  const calls: number[] = [];
  let made = 0;
  const put = (id: string): Promise<TaskResult> => {
    const completed_at = new Date(Date.UTC(2026, 0, 1) + 1000 * made++).toISOString();
    return storeResult(store, { ...sampleResult(id, `v${made}`), completed_at });
  };
  for (let hops = 0; ; hops++) {
    const plan = await planners[hops % planners.length]!();
    const before = store.calls.length;
    const hop = await plan(store, 'R-1', Date.now());
    calls.push(store.calls.length - before);
    if (hop.status !== 'dispatch') return { calls, hops, round: await newestRound(store, 'R-1') };
    const open: string[] = [];
    for (const { task_id } of hop.steps) {
      if (!(await readResult(store, { task_id, attempt: 1 }))) open.push(task_id);
    }
    await settle(open, put);
  }
}

const one = async (ids: readonly string[], put: (id: string) => Promise<unknown>): Promise<void> => {
  await put(ids[((ids.length * 7) % 3) % ids.length]!);
};
const all = async (ids: readonly string[], put: (id: string) => Promise<unknown>): Promise<void> => {
  for (const id of ids) await put(id);
};

test.each([
  ['one lane at a time', one],
  ['all lanes', all],
])(
  'with the results of %s, the same by one process, by two in turn, and by a new one for each hop',
  async (_, settle) => {
    const alone = await newProcess();
    const [first, second] = [await newProcess(), await newProcess()];
    const results = await Promise.all([
      drive([async () => alone], settle),
      drive([async () => first, async () => second], settle),
      drive([newProcess], settle),
    ]);
    const ends = results.map(({ hops, round: { ended } }) => ({
      hops,
      status: ended?.status,
      ctx: ended?.ctx,
      steps: ended?.steps.length,
    }));
    expect(ends[0]).toMatchObject({ status: 'done', ctx: { n: 60 } });
    expect(ends).toEqual([ends[0], ends[0], ends[0]]);
  },
  120_000,
);

test('what a hop reads does not grow with the run, in one process or in ever new ones', async () => {
  const same = await newProcess();
  const warm = await drive([async () => same], all);
  const cold = await drive([newProcess], all);
  const most = (calls: readonly number[], from: number, to: number) => Math.max(...calls.slice(from, to));
  expect(most(warm.calls, 60, 120)).toBeLessThanOrEqual(most(warm.calls, 1, 60) + 2);
  // a decision of the past is read one by one, and at most 64 entries of the journal
  expect(most(cold.calls, 60, 120)).toBeLessThan(64 + 60 + 30);
}, 120_000);
