/** One hop of a run on a platform: from what the store holds to what is to be dispatched now, or how the run ended. */
import { StepspawnError } from './errors.ts';
import type { PlannedStep } from './flow/lane.ts';
import { type Plan, plan } from './flow/plan.ts';
import type { StepResult } from './flow/step-result.ts';
import { canonicalJson, sha256 } from './json.ts';
import { findBlueprint } from './prepare.ts';
import { loadValue } from './settle.ts';
import { readSettled, writeSettled } from './settled-steps.ts';
import { failedStep, type SettledStep, type StepTask, settledStep, stepTask } from './step.ts';
import { runKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { readResult } from './store/result-store.ts';
import {
  type Ended,
  endRound,
  isCancelled,
  newestRound,
  type Round,
  type RoundEnd,
  type RunRecord,
  readDecisions,
  readRun,
  recordDecision,
  retryAttempts,
  type StepEntry,
} from './store/run-store.ts';
import type { InputRef, TaskResult } from './task.ts';
import type { Blueprint } from './validate.ts';

/** The event that the spawn function takes for a step: values travel by key. */
export interface DispatchedStep extends StepTask {
  readonly blueprint: { readonly digest: string };
  readonly in_ref: InputRef;
  /** RFC 3339: the end of the run's time */
  readonly expires_at: string;
}

export type Hop =
  | { readonly run_id: string; readonly status: 'dispatch'; readonly steps: readonly DispatchedStep[] }
  | { readonly run_id: string; readonly status: Ended['status'] };

/** Store requests under way at once. */
const LANES = 32;

/**
 * Plans the newest round of a run from its stored results, writes decisions and inputs, and tells what to dispatch.
 * Calling it again with nothing new gives the same answer. Throws NotFound and StoreUnavailable.
 */
export async function planHop(store: ObjectStore, run_id: string, now: number): Promise<Hop> {
  const record = await readRun(store, run_id);
  if (!record) throw new StepspawnError('NotFound', `no run ${run_id}`);
  const round = await newestRound(store, run_id);
  if (round.ended) return { run_id, status: round.ended.status };
  const blueprint = await findBlueprint({ digest: record.blueprint_digest }, store);
  const settled = await readSettled(store, round);
  const before = settled.size;
  const run: Run = { store, run_id, record, round, blueprint, settled };
  for (;;) {
    const planned = await planRound(run);
    if (planned === 'decided_elsewhere') continue;
    const ended = await endOf(run, planned, now);
    if (ended) return { run_id, status: (await endRound(store, round, ended)).status };
    if (planned.status !== 'dispatch') continue;
    if (settled.size > before) await writeSettled(store, round, settled);
    return { run_id, status: 'dispatch', steps: await dispatch(run, planned.steps) };
  }
}

interface Run {
  readonly store: ObjectStore;
  readonly run_id: string;
  readonly record: RunRecord;
  readonly round: Round;
  readonly blueprint: Blueprint;
  /** by position */
  readonly settled: Map<string, SettledStep>;
}

/** Plans again and again until no planned step has a result yet. */
async function planRound(run: Run): Promise<Plan | 'decided_elsewhere'> {
  const { store, round, record, blueprint } = run;
  const { flow, metas } = blueprint.compiled;
  const known = await readDecisions(store, round);
  for (;;) {
    const results = new Map<string, StepResult>(
      [...run.settled].map(([position, { result }]) => [position, result]),
    );
    const planned = plan({
      flow,
      ctx: record.ctx,
      metas: new Map(Object.entries(metas)),
      results,
      decisions: known,
    });
    for (const [position, lane] of planned.decisions) {
      if (!(await recordDecision(store, round, position, lane))) return 'decided_elsewhere';
    }
    if (planned.status !== 'dispatch') return planned;
    const found = await inLanes(planned.steps, (step) => settledOf(run, step));
    if (found.every((step) => step === null)) return planned;
    for (const [i, step] of found.entries()) if (step) run.settled.set(planned.steps[i]!.position, step);
  }
}

async function settledOf(run: Run, step: PlannedStep): Promise<SettledStep | null> {
  const task = taskOf(run, step);
  const results = await readChain(run.store, task);
  const result = results?.at(-1);
  if (!results || !result) return null;
  const { attempt, error } = result;
  if (error) return failedStep(step, { ...task, attempt }, error.message, result.completed_at);
  return settledStep(run.blueprint, step, task, results, await loadValue(run.store, result));
}

/** The results of an attempt and of those that its rule asks for; null until the last of them is there. */
async function readChain(
  store: ObjectStore,
  { task_id, attempt }: StepTask,
): Promise<[TaskResult, ...TaskResult[]] | null> {
  const first = await readResult(store, { task_id, attempt });
  if (!first) return null;
  const results: [TaskResult, ...TaskResult[]] = [first];
  for (let next = first.retry; next; ) {
    const result = await readResult(store, { task_id, attempt: next.attempt });
    if (!result) return null;
    results.push(result);
    next = result.retry;
  }
  return results;
}

async function endOf(
  { store, record, round, settled }: Run,
  planned: Plan,
  now: number,
): Promise<RoundEnd | null> {
  const steps: StepEntry[] = [...settled.values()].map(({ entry }) => entry);
  const retry_attempts = retryAttempts(round, steps, []);
  // before all else: a child that was ended by the marker blocks its step, and what was cancelled stays so
  if (await isCancelled(store, round)) {
    return { status: 'cancelled', error: { message: 'the run was cancelled' }, steps, retry_attempts };
  }
  if (planned.status === 'done') return { status: 'done', ctx: planned.ctx, steps, retry_attempts: {} };
  if (planned.status === 'failed') {
    const { positions, ...error } = planned.error;
    return { status: 'failed', error, steps, retry_attempts: retryAttempts(round, steps, positions) };
  }
  if (now >= expiryOf(record, round)) {
    const message = `the run exceeded its time limit of ${record.ttl_secs} s`;
    return { status: 'failed', error: { message }, steps, retry_attempts };
  }
  return null;
}

function dispatch(run: Run, steps: readonly PlannedStep[]): Promise<DispatchedStep[]> {
  const { store, run_id, record, round } = run;
  const expires_at = new Date(expiryOf(record, round)).toISOString();
  return inLanes(steps, async (step) => {
    const task = taskOf(run, step);
    const text = canonicalJson(step.in);
    const key = runKey(run_id, `${round.number}/inputs/${task.task_id}.json`);
    await store.create(key, text);
    return {
      ...task,
      blueprint: { digest: record.blueprint_digest },
      in_ref: { key, sha256: sha256(text) },
      expires_at,
    };
  });
}

function taskOf({ run_id, record, round }: Run, step: PlannedStep): StepTask {
  return stepTask({ run_id, context: record.context, attempts: round.attempts, step });
}

function expiryOf({ ttl_secs }: RunRecord, { started_at }: Round): number {
  return Date.parse(started_at) + ttl_secs * 1000;
}

/** `work` for every item, `LANES` at a time, answers in order. */
async function inLanes<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const answers = new Array<R>(items.length);
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(LANES, items.length) }, async () => {
      while (next < items.length) {
        const i = next++;
        answers[i] = await work(items[i]!);
      }
    }),
  );
  return answers;
}
