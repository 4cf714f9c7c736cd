/** A long run hop by hop, as a state machine drives it; the steps' results are put into the store as a worker would. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { planHop } from '../../lib/hop.ts';
import type { JsonObject } from '../../lib/json.ts';
import { startRun } from '../../lib/start-run.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { storeResult } from '../../lib/store/result-store.ts';
import { newestRound } from '../../lib/store/run-store.ts';
import { sampleResult } from '../store/contract.ts';
import { shellAgents, step } from '../support/documents.ts';
import { faultyStore } from '../support/faulty-store.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();

test('a loop of 2,000 steps: every step once, and what a hop reads does not grow with the run', async () => {
  const store = faultyStore(folderStore(mkdtempSync(join(folder, 'store-'))), () => undefined);
  const cond = { op: 'lit', value: true };
  const loop: JsonObject = {
    kind: 'loop',
    counter: { op: 'path', at: '$.n' },
    cond,
    body: step('a', 'x', '$.last'),
    max: 2000,
  };
  await startRun({ run_id: 'R-long', blueprint: shellAgents({ a: 'true' }, loop) }, store);
  const dispatched = new Set<string>();
  const calls: number[] = [];
  for (;;) {
    const before = store.calls.length;
    const hop = await planHop(store, 'R-long', Date.now());
    calls.push(store.calls.length - before);
    if (hop.status !== 'dispatch') break;
    expect(hop.steps).toHaveLength(1);
    for (const { task_id } of hop.steps) {
      dispatched.add(task_id);
      await storeResult(store, { ...sampleResult(task_id, `v${dispatched.size}`) });
    }
  }
  expect(dispatched.size).toBe(2000);
  const { ended } = await newestRound(store, 'R-long');
  expect(ended).toMatchObject({ status: 'done', ctx: { n: 2000, last: 'v2000' } });
  expect(Math.max(...calls)).toBeLessThan(20);
}, 120_000);
