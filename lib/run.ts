/** One execution of a flow in this process: a loop over `plan` with bounded concurrency, resumable from the store. */
import { setTimeout as startTimer } from 'node:timers';
import { setTimeout } from 'node:timers/promises';
import { runAttempt } from './attempt.ts';
import { now } from './clock.ts';
import { ERRORS, StepspawnError } from './errors.ts';
import type { PlannedStep } from './flow/lane.ts';
import { type FlowRun, startFlow } from './flow/run.ts';
import type { StepResult } from './flow/step-result.ts';
import type { JsonValue } from './json.ts';
import { STORE_PATIENCE_MS } from './limits.ts';
import { pollFor } from './poll.ts';
import type { AttemptPorts } from './ports.ts';
import { followRetries } from './retry.ts';
import { loadValue } from './settle.ts';
import type { Spent } from './spent.ts';
import { type RunRequest, startRun } from './start-run.ts';
import { failedStep, settledStep, spentIn, stepTask } from './step.ts';
import type { ObjectStore } from './store/object-store.ts';
import {
  type Ended,
  endRound,
  isCancelled,
  type Round,
  type RoundEnd,
  readDecisions,
  recordDecisions,
  type StepEntry,
} from './store/run-store.ts';
import { steadyStore } from './store/steady.ts';
import type { NextAttempt, TaskResult } from './task.ts';
import type { Blueprint } from './validate.ts';

export interface StepProgress {
  readonly task_id: string;
  readonly ref: string;
  readonly state: 'started' | 'retrying' | 'passed' | 'blocked' | 'failed' | 'stopped';
  readonly replayed: boolean;
  readonly message: string | null;
  readonly warnings: readonly string[];
  /** the attempt that a step waits for */
  readonly next: NextAttempt | null;
}

export interface RunPorts extends AttemptPorts {
  readonly max_concurrency: number;
  readonly onProgress?: ((progress: StepProgress) => void) | undefined;
}

const IN_PROGRESS_POLL_MS = 500;

/**
 * Runs the flow to its end, or goes on where an earlier process left it: settled steps are answered from the
 * store. A failed run is a value. Throws what startRun throws, and AttemptInProgress when `ports.signal` interrupts it.
 */
export async function runFlow(request: RunRequest, ports: RunPorts): Promise<Ended> {
  const store = steadyStore(ports.store, ports.store_patience_ms ?? STORE_PATIENCE_MS);
  const { blueprint, record, round } = await startRun(request, store, ports.secrets.names);
  if (round.ended) return round.ended;
  for (;;) {
    const decisions = await readDecisions(store, round);
    const { ctx, ttl_secs } = record;
    const ended = await drive({
      request,
      blueprint,
      ctx,
      round,
      decisions,
      ttl_secs,
      unsettled: new Map(),
      ports,
      store,
    });
    if (ended !== 'decided_elsewhere') return endRound(store, round, ended);
  }
}

interface Drive {
  readonly request: RunRequest;
  readonly blueprint: Blueprint;
  readonly ctx: JsonValue;
  readonly round: Round;
  readonly decisions: ReadonlyMap<string, number>;
  readonly ttl_secs: number;
  /** by position: what attempts used whose step has another one to come */
  readonly unsettled: Map<string, Spent>;
  readonly ports: RunPorts;
  /** for the run's own objects; attempts have patience of their own */
  readonly store: ObjectStore;
}

type StopReason = 'interrupted' | 'cancelled' | 'expired' | 'failed';

async function drive(run: Drive): Promise<RoundEnd | 'decided_elsewhere'> {
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
  const recordAll = (): Promise<boolean> => recordDecisions(run.store, round, flow.decisions, recorded);
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
function watchRun({ round, ports, ttl_secs }: Drive, stop: (why: StopReason) => void): () => void {
  const look = async (): Promise<void> => {
    if (await isCancelled(ports.store, round)) stop('cancelled');
  };
  const stopPolling = pollFor(ports.cancel_poll, look);
  const timer = startTimer(() => stop('expired'), Math.min(ttl_secs * 1000, 2 ** 31 - 1));
  const onAbort = (): void => stop('interrupted');
  if (ports.signal?.aborted) onAbort();
  ports.signal?.addEventListener('abort', onAbort, { once: true });
  return () => {
    stopPolling();
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
  const task = stepTask({
    run_id: request.run_id,
    context: request.context ?? {},
    attempts: round.attempts,
    step,
  });
  const { task_id } = task;
  let attempt = task.attempt;
  const made: TaskResult[] = [];
  const tell = (state: StepProgress['state'], about: Partial<TaskResult> = {}): void => {
    const { replayed = false, message = null, warnings = [], retry = null } = about;
    ports.onProgress?.({ task_id, ref: step.ref, state, replayed, message, warnings, next: retry });
  };
  tell('started');
  try {
    const whole = { ...task, blueprint: blueprint.document, in: step.in };
    const results = await followRetries(
      attempt,
      async (number) => {
        attempt = number;
        const one = () => runAttempt({ ...whole, attempt }, { ...ports, signal });
        const result = await settledAttempt(one, signal);
        made.push(result);
        return result;
      },
      async (result, next) => {
        run.unsettled.set(step.position, spentIn(made));
        tell('retrying', { ...result, warnings: [], retry: next });
        await waitUntil(Date.parse(next.not_before), signal);
      },
    );
    run.unsettled.delete(step.position);
    const result = results.at(-1) ?? results[0];
    tell(result.ok ? 'passed' : 'blocked', result);
    return settledStep(blueprint, step, task, results, await loadValue(run.store, result));
  } catch (error) {
    if (!(error instanceof StepspawnError) || !ERRORS[error.code].stored) {
      tell('stopped');
      throw error;
    }
    tell('failed', { message: error.message });
    run.unsettled.delete(step.position);
    return failedStep(step, { ...task, attempt }, { message: error.message, results: made });
  }
}

/** Waits for a time. Throws AttemptInProgress when the signal aborts before. */
async function waitUntil(time: number, signal: AbortSignal): Promise<void> {
  try {
    await setTimeout(Math.max(0, time - now()), undefined, { signal });
  } catch (error) {
    throw new StepspawnError('AttemptInProgress', 'interrupted while a new attempt was not due yet', {
      cause: error,
    });
  }
}

/** While another process holds the attempt, waits for it to settle or to be lost. */
async function settledAttempt<T>(run: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await run();
    } catch (error) {
      const held = error instanceof StepspawnError && error.code === 'AttemptInProgress';
      if (!held || signal.aborted) throw error;
      await setTimeout(IN_PROGRESS_POLL_MS);
    }
  }
}

function endOf(
  { request, ttl_secs, unsettled }: Drive,
  flow: FlowRun,
  steps: readonly StepEntry[],
  stopped: StopReason | undefined,
): RoundEnd {
  const { status } = flow;
  const end = (of: Omit<RoundEnd, 'steps' | 'unsettled'>): RoundEnd => ({ ...of, steps, unsettled });
  if (status.status === 'done') return end({ status: 'done', ctx: status.ctx });
  if (status.status === 'failed') {
    const { positions: fatal, ...error } = status.error;
    return end({ status: 'failed', error, fatal });
  }
  if (stopped === 'cancelled')
    return end({ status: 'cancelled', error: { message: 'the run was cancelled' } });
  if (stopped === 'expired') {
    const message = `the run exceeded its time limit of ${ttl_secs} s`;
    return end({ status: 'failed', error: { message } });
  }
  throw new StepspawnError(
    'AttemptInProgress',
    `run ${request.run_id} was interrupted; start it again under its id to go on`,
  );
}
