/** One hop of a run on a platform: from what the store holds to what is to be dispatched now, or how the run ended. */
import { StepspawnError } from './errors.ts';
import type { PlannedStep } from './flow/lane.ts';
import { measure } from './flow/measure.ts';
import { feed, type Plan, type Planning, planOf, startPlanning } from './flow/plan.ts';
import type { StepResult } from './flow/step-result.ts';
import { type Journal, openJournal, type SettledSteps } from './journal.ts';
import { canonicalJson, sha256 } from './json.ts';
import { findBlueprint } from './prepare.ts';
import { loadValue } from './settle.ts';
import type { Spent } from './spent.ts';
import { failedStep, type SettledStep, type StepTask, settledStep, spentIn, stepTask } from './step.ts';
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
  recordDecisions,
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
  const round = await newestRound(store, run_id, record);
  if (round.ended) return { run_id, status: round.ended.status };
  const blueprint = await findBlueprint({ digest: record.blueprint_digest }, store);
  const run: Run = { store, run_id, record, round, blueprint };
  for (;;) {
    const live = takeLive(run) ?? (await restore(run));
    if (!(await goOn(run, live))) continue;
    const planned = planOf(live.planning);
    const ended = await endOf(run, live, planned, now);
    if (ended) return { run_id, status: (await endRound(store, round, ended)).status };
    if (planned.status !== 'dispatch') continue;
    const steps = await dispatch(run, planned.steps);
    keepLive(run, live);
    return { run_id, status: 'dispatch', steps };
  }
}

interface Run {
  readonly store: ObjectStore;
  readonly run_id: string;
  readonly record: RunRecord;
  readonly round: Round;
  readonly blueprint: Blueprint;
}

/** A round as far as this process has followed it. */
interface Live {
  readonly planning: Planning;
  readonly settled: SettledSteps;
  readonly journal: Journal;
  /** positions of fanouts whose deciding lane is in the store */
  readonly recorded: Set<string>;
  /** by position: what attempts used whose step has another one to come */
  readonly unsettled: Map<string, Spent>;
  /** about the characters of JSON that its values have */
  chars: number;
}

/** Evaluates the flow from its start with what is written down. */
async function restore({ store, round, record, blueprint }: Run): Promise<Live> {
  const decisions = await readDecisions(store, round);
  const { settled, journal } = await openJournal(store, round);
  const { flow, metas } = blueprint.compiled;
  const planning = startPlanning({ flow, ctx: record.ctx, metas: new Map(Object.entries(metas)), decisions });
  feed(planning, resultsOf(settled));
  return { planning, settled, journal, recorded: new Set(), unsettled: new Map(), chars: charsOf(settled) };
}

function charsOf(settled: SettledSteps): number {
  let chars = 0;
  for (const { result } of settled.values()) if ('value' in result) chars += measure(result.value).size;
  return chars;
}

function resultsOf(settled: SettledSteps): Map<string, StepResult> {
  return new Map([...settled].map(([position, { result }]) => [position, result]));
}

/** Reads results until no step that is waited for has one; false where another process decided otherwise. */
async function goOn(run: Run, live: Live): Promise<boolean> {
  const { planning, settled, journal, recorded, unsettled } = live;
  const fresh: string[] = [];
  for (;;) {
    if (!(await recordDecisions(run.store, run.round, planning.run.decisions, recorded))) return false;
    const waited = planning.run.status.status === 'running' ? [...planning.outstanding.values()] : [];
    const found = await inLanes(waited, (step) => settledOf(run, step, unsettled));
    const news: SettledSteps = new Map();
    for (const [i, step] of found.entries()) if (step) news.set(waited[i]!.position, step);
    if (news.size === 0) break;
    for (const [position, step] of news) settled.set(position, step);
    for (const position of news.keys()) fresh.push(position);
    live.chars += charsOf(news);
    feed(planning, resultsOf(news));
  }
  if (fresh.length > 0) await journal.write(settled, fresh);
  return true;
}

/** The runs that this process planned last, so that their next hop reads what is new and no more. */
const kept = new Map<string, Live>();
const KEPT_RUNS = 8;
/** A run with a larger context is read again rather than held. */
const KEPT_CHARS = 8_000_000;

function liveKey({ store, run_id, round, record }: Run): string {
  return `${store.url} ${run_id} ${round.number} ${round.started_at} ${record.request_digest}`;
}

function takeLive(run: Run): Live | undefined {
  const live = kept.get(liveKey(run));
  kept.delete(liveKey(run));
  return live;
}

function keepLive(run: Run, live: Live): void {
  if (live.chars > KEPT_CHARS) return;
  kept.set(liveKey(run), live);
  for (const oldest of [...kept.keys()].slice(0, Math.max(0, kept.size - KEPT_RUNS))) kept.delete(oldest);
}

/** Null until the last of its attempts is there; `unsettled` is told what those before it used. */
async function settledOf(
  run: Run,
  step: PlannedStep,
  unsettled: Map<string, Spent>,
): Promise<SettledStep | null> {
  const task = taskOf(run, step);
  const results = await readChain(run.store, task);
  const result = results.at(-1);
  unsettled.delete(step.position);
  if (!result) return null;
  if (result.retry) {
    unsettled.set(step.position, spentIn(results));
    return null;
  }
  const { attempt, error, completed_at } = result;
  if (error) {
    const { message } = error;
    return failedStep(step, { ...task, attempt }, { message, completed_at, results: results.slice(0, -1) });
  }
  const [first = result, ...others] = results;
  return settledStep(run.blueprint, step, task, [first, ...others], await loadValue(run.store, result));
}

/** The results so far of an attempt and of those that its rule asks for. */
async function readChain(store: ObjectStore, { task_id, attempt }: StepTask): Promise<TaskResult[]> {
  const results: TaskResult[] = [];
  for (let next: number | undefined = attempt; next !== undefined; next = results.at(-1)?.retry?.attempt) {
    const result = await readResult(store, { task_id, attempt: next });
    if (!result) break;
    results.push(result);
  }
  return results;
}

async function endOf(
  { store, record, round }: Run,
  { settled, unsettled }: Live,
  planned: Plan,
  now: number,
): Promise<RoundEnd | null> {
  const end = (of: Omit<RoundEnd, 'steps' | 'unsettled'>): RoundEnd => {
    const steps: StepEntry[] = [...settled.values()].map(({ entry }) => entry);
    return { ...of, steps, unsettled };
  };
  // before all else: a child that was ended by the marker blocks its step, and what was cancelled stays so
  if (await isCancelled(store, round))
    return end({ status: 'cancelled', error: { message: 'the run was cancelled' } });
  if (planned.status === 'done') return end({ status: 'done', ctx: planned.ctx });
  if (planned.status === 'failed') {
    const { positions: fatal, ...error } = planned.error;
    return end({ status: 'failed', error, fatal });
  }
  if (now >= expiryOf(record, round)) {
    const message = `the run exceeded its time limit of ${record.ttl_secs} s`;
    return end({ status: 'failed', error: { message } });
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
