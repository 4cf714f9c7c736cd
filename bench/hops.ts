/** A long run hop by hop over a folder store, as a state machine drives it: what a hop costs must not grow with the run. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { planHop } from '../lib/hop.ts';
import type { JsonObject } from '../lib/json.ts';
import { startRun } from '../lib/start-run.ts';
import { folderStore } from '../lib/store/folder.ts';
import { storeResult } from '../lib/store/result-store.ts';
import { compare, type Measured } from './measure.ts';

export async function measure(): Promise<readonly Measured[]> {
  return [
    await compare({
      what: 'a loop of 2,000 steps against 200, hop by hop',
      goal: 12,
      ours: () => drive(2000),
      floor: () => drive(200),
      rounds: 3,
    }),
  ];
}

function document(rounds: number): JsonObject {
  const at = (path: string): JsonObject => ({ op: 'path', at: path });
  const body = { kind: 'step', ref: 'a', in: at('$.n'), out: at('$.last') };
  return {
    id: 'loop',
    flow: { kind: 'loop', counter: at('$.n'), cond: { op: 'lit', value: true }, body, max: rounds },
    agents: [{ name: 'a', kind: 'subprocess', spec: { program: 'true' } }],
  };
}

/** Milliseconds that the hops take; the steps' results are put into the store between them. */
async function drive(rounds: number): Promise<number> {
  const folder = await mkdtemp(join(tmpdir(), 'stepspawn-bench-'));
  try {
    const store = folderStore(folder);
    await startRun({ run_id: 'R-1', blueprint: document(rounds) }, store);
    let took = 0;
    for (;;) {
      const begun = performance.now();
      const hop = await planHop(store, 'R-1', Date.now());
      took += performance.now() - begun;
      if (hop.status === 'done') return took;
      if (hop.status !== 'dispatch') throw new Error(`the run is ${hop.status}`);
      for (const { task_id } of hop.steps) await storeResult(store, { ...RESULT, task_id });
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const RESULT = {
  task_id: '',
  attempt: 1,
  agent: 'a',
  blueprint_digest: `sha256:${'0'.repeat(64)}`,
  request_digest: `sha256:${'0'.repeat(64)}`,
  status: 'passed',
  ok: true,
  reason: null,
  message: null,
  value: { ok: true },
  exit: { code: 0, signal: null },
  stats: { worker_kind: 'subprocess', adapter_data: { exit_code: 0 } },
  stdout: { size_bytes: 0, tail: '', key: null },
  stderr: { size_bytes: 0, tail: '', key: null },
  warnings: [],
  started_at: '2026-01-01T00:00:00.000Z',
  completed_at: '2026-01-01T00:00:00.000Z',
  duration_ms: 0,
  replayed: false,
} as const;
