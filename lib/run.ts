/** One execution of a flow in this process: a loop over `plan` with bounded concurrency, resumable from the store. */
import { runAttempt } from './attempt.ts';
import { timestamp } from './clock.ts';
import { StepspawnError } from './errors.ts';
import type { PlannedStep } from './flow/lane.ts';
import { type FlowRun, startFlow } from './flow/run.ts';
import type { StepResult } from './flow/step-result.ts';
import { digest, isObject, type JsonObject, type JsonValue, sha256 } from './json.ts';
import type { AttemptPorts } from './ports.ts';
import { loadValue } from './settle.ts';
import { runKey } from './store/keys.ts';
import {
  type Ended,
  endRound,
  openRound,
  type Round,
  readDecisions,
  recordDecision,
  type StepEntry,
} from './store/run-store.ts';
import { RUN_ID } from './task.ts';
import { type Blueprint, checkedBlueprint } from './validate.ts';
import { keepsText } from './worker/render.ts';

export interface RunRequest {
  /** matches RUN_ID */
  readonly run_id: string;
  /** the document */
  readonly blueprint: JsonValue;
  /** merged over the document's default_init_ctx */
  readonly ctx?: JsonValue | undefined;
  /** launch context: work_dir, project_root, task_metadata */
  readonly context?: JsonObject | undefined;
  readonly ttl_secs?: number | undefined;
  /** gives the steps that ended a failed run a new attempt */
  readonly retry?: boolean | undefined;
}

export interface StepProgress {
  readonly task_id: string;
  readonly ref: string;
  readonly state: 'started' | 'passed' | 'blocked' | 'failed' | 'stopped';
  readonly replayed: boolean;
  readonly message: string | null;
}

export interface RunPorts extends AttemptPorts {
  readonly max_concurrency: number;
  readonly onProgress?: ((progress: StepProgress) => void) | undefined;
}

export const DEFAULT_RUN_TTL_SECS = 1800;
const IN_PROGRESS_POLL_MS = 500;

/**
 * Runs the flow to its end, or goes on where an earlier process left it: settled steps are answered from the
 * store. A failed run is a value. Throws InvalidBlueprint, InvalidTask, AttemptConflict, StoreUnavailable, and
 * AttemptInProgress when `ports.signal` interrupts it.
 */
export async function runFlow(request: RunRequest, ports: RunPorts): Promise<Ended> {
  if (!RUN_ID.test(request.run_id))
    throw new StepspawnError('InvalidTask', `run id '${request.run_id}' does not match ${RUN_ID.source}`);
  const blueprint = await checkedBlueprint(request.blueprint);
  const ctx = initialContext(blueprint, request.ctx);
  const identity = { blueprint: blueprint.digest, ctx, context: request.context ?? null };
  const round = await openRound(ports.store, request.run_id, digest(identity), request.retry === true);
  if (round.ended) return round.ended;
  const ttl_secs = request.ttl_secs ?? blueprint.compiled.default_run_ttl_secs ?? DEFAULT_RUN_TTL_SECS;
  for (;;) {
    const decisions = await readDecisions(ports.store, round);
    const ended = await drive({ request, blueprint, ctx, round, decisions, ttl_secs, ports });
    if (ended !== 'decided_elsewhere') return endRound(ports.store, round, ended);
  }
}

/** Both objects: shallow, the request's keys win; otherwise the request's value replaces the default. */
export function initialContext(blueprint: Blueprint, given: JsonValue | undefined): JsonValue {
  const preset = blueprint.compiled.default_init_ctx;
  if (given === undefined) return preset ?? {};
  return isObject(given) && isObject(preset) ? { ...preset, ...given } : given;
}

/** `ST-` and 32 hex digits: the same step of the same run has the same id, whoever runs it. */
export function stepTaskId(runId: string, position: string): string {
  return `ST-${sha256(`${runId}\n${position}`).slice(0, 32)}`;
}

interface Drive {
  readonly request: RunRequest;
  readonly blueprint: Blueprint;
  readonly ctx: JsonValue;
  readonly round: Round;
  readonly decisions: ReadonlyMap<string, number>;
  readonly ttl_secs: number;
  readonly ports: RunPorts;
}

type StopReason = 'interrupted' | 'cancelled' | 'expired' | 'failed';

async function drive(run: Drive): Promise<Omit<Ended, 'run_id' | 'completed_at'> | 'decided_elsewhere'> {
  const { blueprint, ports, round } = run;
  const flow: FlowRun = startFlow({
    flow: blueprint.compiled.flow,
    ctx: run.ctx,
    metas: new Map(Object.entries(blueprint.compiled.metas)),
    decisions: run.decisions,
  });
  const active = new Map<string, { readonly controller: AbortController; readonly done: Promise<void> }>();
  const steps: StepEntry[] = [];
  const recorded = new Set<string>();
  const dropped = new Set<string>();
  const queue: PlannedStep[] = [];
  let next = 0;
  let fault: unknown;
  let stopped: StopReason | undefined;
  let changed = false;
  let resolveWait: () => void = () => undefined;
  const wake = (): void => {
    changed = true;
    resolveWait();
  };

  const stopAll = (why: StopReason): void => {
    stopped ??= why;
    for (const { controller } of active.values())
      controller.abort(why === 'cancelled' ? 'cancelled' : 'interrupted');
    wake();
  };
  const launch = (step: PlannedStep): void => {
    const controller = new AbortController();
    const done = runStep(run, step, controller.signal)
      .then(({ entry, result }) => {
        steps.push(entry);
        if (!controller.signal.aborted) flow.settle(step.position, result);
      })
      .catch((error) => {
        if (!controller.signal.aborted) fault ??= error;
      })
      .finally(() => {
        active.delete(step.position);
        wake();
      });
    active.set(step.position, { controller, done });
  };

  /** Writes down what depended on time before anything follows from it; false when another process decided otherwise. */
  const recordAll = async (): Promise<boolean> => {
    for (const [position, lane] of flow.decisions) {
      if (recorded.has(position)) continue;
      if (!(await recordDecision(ports.store, round, position, lane))) return false;
      recorded.add(position);
    }
    return true;
  };
  const goesOn = (): boolean =>
    flow.status.status === 'running' && fault === undefined && stopped === undefined;

  const unwatch = watchRun(run, stopAll);
  try {
    while (goesOn()) {
      changed = false;
      for (const position of flow.takeDropped()) {
        dropped.add(position);
        active.get(position)?.controller.abort('interrupted');
      }
      if (!(await recordAll())) return 'decided_elsewhere';
      for (const step of flow.pending()) queue.push(step);
      while (next < queue.length && active.size < ports.max_concurrency) {
        const step = queue[next++]!;
        if (!dropped.delete(step.position)) launch(step);
      }
      if (!changed && goesOn()) {
        await new Promise<void>((resolve) => {
          resolveWait = resolve;
        });
      }
    }
    if (!(await recordAll())) return 'decided_elsewhere';
  } finally {
    unwatch();
    stopAll('failed');
    await Promise.all([...active.values()].map(({ done }) => done));
  }
  if (fault !== undefined) throw fault;
  return endOf(run, flow, steps, stopped);
}

/** Calls `stop` when the caller interrupts, the run's time is over, or its cancel marker appears. */
function watchRun({ request, ports, ttl_secs }: Drive, stop: (why: StopReason) => void): () => void {
  const key = runKey(request.run_id, 'cancel.json');
  const look = async (): Promise<void> => {
    if (await ports.store.read(key).catch(() => null)) stop('cancelled');
  };
  const poll = setInterval(() => void look(), ports.cancel_poll_ms);
  const timer = setTimeout(() => stop('expired'), Math.min(ttl_secs * 1000, 2 ** 31 - 1));
  const onAbort = (): void => stop('interrupted');
  if (ports.signal?.aborted) onAbort();
  ports.signal?.addEventListener('abort', onAbort, { once: true });
  return () => {
    clearInterval(poll);
    clearTimeout(timer);
    ports.signal?.removeEventListener('abort', onAbort);
  };
}

async function runStep(
  run: Drive,
  step: PlannedStep,
  signal: AbortSignal,
): Promise<{ readonly entry: StepEntry; readonly result: StepResult }> {
  const { request, round, blueprint, ports } = run;
  const task_id = stepTaskId(request.run_id, step.position);
  const attempt = round.attempts[task_id] ?? 1;
  const context = { ...step.step_ctx, ...request.context, run_id: request.run_id };
  const agent = blueprint.compiled.agents[step.ref];
  const entry = { task_id, attempt, ref: step.ref, position: step.position };
  const tell = (state: StepProgress['state'], replayed: boolean, message: string | null): void =>
    ports.onProgress?.({ task_id, ref: step.ref, state, replayed, message });
  tell('started', false, null);
  try {
    const task = { task_id, attempt, agent: step.ref, blueprint: request.blueprint, in: step.in, context };
    const result = await settledAttempt(() => runAttempt(task, { ...ports, signal }), signal);
    const status = result.reason === 'cancelled' ? 'cancelled' : result.status;
    const { completed_at } = result;
    tell(result.ok ? 'passed' : 'blocked', result.replayed, result.message);
    const value = await loadValue(ports.store, result);
    if (!result.ok)
      return {
        entry: { ...entry, status, completed_at },
        result: { status: 'blocked', value, completed_at },
      };
    const fold = agent === undefined || !keepsText(agent, context);
    return {
      entry: { ...entry, status, completed_at },
      result: { status: 'passed', value, completed_at, fold },
    };
  } catch (error) {
    if (!(error instanceof StepspawnError) || !FAILS_THE_STEP.has(error.code)) {
      tell('stopped', false, null);
      throw error;
    }
    const completed_at = timestamp();
    tell('failed', false, error.message);
    return {
      entry: { ...entry, status: 'failed', completed_at },
      result: { status: 'failed', message: error.message, completed_at },
    };
  }
}
const FAILS_THE_STEP = new Set(['InvalidBlueprint', 'InvalidTask', 'PlaceholderUnset', 'SpawnFailed']);

/** While another process holds the attempt, waits for it to settle or to be lost. */
async function settledAttempt<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await run();
    } catch (error) {
      const held = error instanceof StepspawnError && error.code === 'AttemptInProgress';
      if (!held || signal.aborted) throw error;
      await new Promise((resolve) => setTimeout(resolve, IN_PROGRESS_POLL_MS));
    }
  }
}

function endOf(
  { request, ttl_secs, round }: Drive,
  flow: FlowRun,
  steps: readonly StepEntry[],
  stopped: StopReason | undefined,
): Omit<Ended, 'run_id' | 'completed_at'> {
  const { status } = flow;
  const retry = (ended: readonly StepEntry[]): Record<string, number> => ({
    ...round.attempts,
    ...Object.fromEntries(ended.map(({ task_id, attempt }) => [task_id, attempt + 1])),
  });
  const cancelled = steps.filter((entry) => entry.status === 'cancelled');
  if (status.status === 'done') return { status: 'done', ctx: status.ctx, steps, retry_attempts: {} };
  if (status.status === 'failed') {
    const { positions, ...error } = status.error;
    const fatal = new Set(positions);
    const ended = steps.filter(({ position }) => fatal.has(position));
    return { status: 'failed', error, steps, retry_attempts: retry([...cancelled, ...ended]) };
  }
  if (stopped === 'cancelled') {
    return {
      status: 'cancelled',
      error: { message: 'the run was cancelled' },
      steps,
      retry_attempts: retry(cancelled),
    };
  }
  if (stopped === 'expired') {
    const message = `the run exceeded its time limit of ${ttl_secs} s`;
    return { status: 'failed', error: { message }, steps, retry_attempts: retry(cancelled) };
  }
  throw new StepspawnError(
    'AttemptInProgress',
    `run ${request.run_id} was interrupted; start it again under its id to go on`,
  );
}
