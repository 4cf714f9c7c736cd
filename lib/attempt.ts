/** The use case: claim -> compile -> render -> spawn -> normalise -> store. */
import { randomBytes } from 'node:crypto';
import { prepareChild, type ReadyChild } from './child.ts';
import { now, timestamp } from './clock.ts';
import { ERRORS, errorBody, StepspawnError } from './errors.ts';
import { claimMarginMs, STORE_PATIENCE_MS } from './limits.ts';
import type { AttemptPorts } from './ports.ts';
import { type Prepared, prepare } from './prepare.ts';
import { nextAttempt } from './retry.ts';
import { persist, storeStreams, storeValue } from './settle.ts';
import { withPatience } from './store/patience.ts';
import { claimAttempt, type HeldClaim, markOf, releaseClaim, storeResult } from './store/result-store.ts';
import type { Outcome, Task, TaskResult } from './task.ts';
import { endTraced, isAlive } from './worker/processes.ts';
import type { Scratch } from './worker/scratch.ts';

/** Calls on the store that taking a claim makes at the most, unless others take part. */
const CLAIM_CALLS = 5;
const CLAIM_TRIES = 3;

/**
 * Runs one attempt, or answers from the store what it came to: at most one child runs for a task id and attempt.
 * A child that fails is a result. Throws InvalidBlueprint, InvalidTask, PlaceholderUnset, SpawnFailed,
 * AttemptConflict, AttemptInProgress, NotFound and StoreUnavailable.
 */
export async function runAttempt(task: Task, given: AttemptPorts): Promise<TaskResult> {
  const patience = given.store_patience_ms ?? STORE_PATIENCE_MS;
  const ports = { ...given, store: withPatience(given.store, patience) };
  const prepared = await prepare(task, ports);
  const { limits, request_digest } = prepared;
  const { task_id, attempt } = task;
  const deadline = now() + limits.timeout_secs * 1000 + claimMarginMs(limits);
  const holder = randomBytes(16).toString('hex');
  // nothing of this is seen by others, so that it need not wait for the claim
  const making = makeReady(prepared, markOf(holder), ports);
  making.catch(() => undefined);
  const answer = await persist({ deadline, patience: CLAIM_CALLS * patience, tries: CLAIM_TRIES }, () =>
    claimAttempt(ports.store, {
      task_id,
      attempt,
      request_digest,
      holder,
      deadline,
      now: now(),
      host: ports.host,
      isAlive,
    }),
  ).catch(async (error: unknown) => {
    await discard(making);
    throw error;
  });
  if (answer.kind === 'settled') {
    await discard(making);
    return replay(answer.result);
  }
  const { held } = answer;
  if (held.takenOver?.sameHost) {
    endTraced({ mark: markOf(held.takenOver.holder) });
    await ports.scratch.sweep();
  }
  return work(prepared, held, { making, deadline, patience }, ports);
}

/** The private place of an attempt, and the child that is ready in it, or why it is not. */
interface Made {
  readonly scratch: Scratch;
  readonly child: PromiseSettledResult<ReadyChild>;
}

async function makeReady(prepared: Prepared, mark: string, ports: AttemptPorts): Promise<Made> {
  const scratch = await ports.scratch.make(mark);
  const [child] = await Promise.allSettled([prepareChild(prepared, scratch, mark, ports)]);
  return { scratch, child };
}

/** What cannot be removed now is swept at the next start. */
async function discard(making: Promise<Made>): Promise<void> {
  await making.then(({ scratch }) => scratch.remove()).catch(() => undefined);
}

/** A stored result as the answer to a repeated request: a stored failure is thrown again. */
export function replay(result: TaskResult): TaskResult {
  if (result.error)
    throw new StepspawnError(result.error.code, result.error.message, { issues: result.error.issues ?? [] });
  return { ...result, replayed: true };
}

async function work(
  prepared: Prepared,
  held: HeldClaim,
  {
    making,
    ...time
  }: { readonly making: Promise<Made>; readonly deadline: number; readonly patience: number },
  ports: AttemptPorts,
): Promise<TaskResult> {
  const started_at = timestamp();
  const clock = performance.now();
  let started = held.takenOver?.started ?? false;
  const base = {
    task_id: prepared.task.task_id,
    attempt: prepared.task.attempt,
    agent: prepared.agent.name,
    blueprint_digest: prepared.blueprint.digest,
    request_digest: prepared.request_digest,
  };
  const finish = (
    rest: Omit<TaskResult, keyof typeof base | 'started_at' | 'completed_at' | 'duration_ms' | 'replayed'>,
  ): Promise<TaskResult> => {
    const times = {
      started_at,
      completed_at: timestamp(),
      duration_ms: Math.round(performance.now() - clock),
      replayed: false,
    };
    const result: TaskResult = { ...base, ...rest, ...times };
    return persist(time, () => storeResult(ports.store, result));
  };
  const warnings = started
    ? ['an earlier holder of this attempt was lost; its child may have run once already']
    : [];
  try {
    const { scratch, child } = await making;
    if (child.status === 'rejected') throw child.reason;
    const { exit, collected, artifacts } = await child.value.run(() => {
      started = true;
    });
    if (exit.cause === 'interrupted') {
      throw new StepspawnError(
        'AttemptInProgress',
        `attempt ${base.attempt} of task ${base.task_id} was interrupted; it can be started again`,
      );
    }
    const bytes = collected.stdout.size_bytes + collected.stderr.size_bytes;
    const value = await persist({ ...time, bytes }, () => storeValue(ports.store, base, collected.outcome));
    const streams = await persist({ ...time, bytes }, () => storeStreams(ports.store, base, collected));
    const { outcome, ...rest } = artifacts
      ? await (await import('./settle-artifacts.ts')).settleArtifacts(ports.store, base, time, {
          outcome: collected.outcome,
          artifacts,
        })
      : collected;
    const result = finish({
      status: outcome.ok ? 'passed' : 'blocked',
      ok: outcome.ok,
      reason: outcome.reason,
      message: outcome.message,
      ...value,
      exit: exit.status,
      stats: outcome.stats,
      ...(outcome.reported_error && { reported_error: outcome.reported_error }),
      ...retryOf(prepared, outcome),
      ...streams,
      ...('stored' in rest && { artifacts: rest.stored }),
      warnings: [...warnings, ...outcome.warnings, ...exit.warnings],
    });
    // all that the result names is stored by now
    await Promise.allSettled([result, scratch.remove()]);
    return await result;
  } catch (error) {
    if (error instanceof StepspawnError && ERRORS[error.code].stored) {
      const failed = await finish({
        status: 'failed',
        ok: false,
        reason: null,
        message: error.message,
        error: errorBody(error),
        warnings,
        ...NOTHING_RAN,
      });
      return replay(failed);
    }
    await releaseClaim(ports.store, held, started).catch(() => undefined);
    throw error;
  } finally {
    await discard(making);
  }
}

function retryOf({ agent, task }: Prepared, { retry }: Pick<Outcome, 'retry'>): Pick<TaskResult, 'retry'> {
  const rule = agent.worker.path === 'template' ? agent.worker.retry : null;
  const next = retry && rule ? nextAttempt(rule, task) : null;
  return next === null ? {} : { retry: next };
}

/** The parts of a result that tell about a child, when none ran. */
const NOTHING_RAN = {
  exit: { code: null, signal: null },
  stats: { worker_kind: 'subprocess', adapter_data: { exit_code: null } },
  stdout: { size_bytes: 0, tail: '', key: null },
  stderr: { size_bytes: 0, tail: '', key: null },
} as const satisfies Partial<TaskResult>;
