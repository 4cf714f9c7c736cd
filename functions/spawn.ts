/** `spawn`: runs one attempt in this execution environment, and answers from the store what others came to. */
import type { Context } from 'aws-lambda';
import { answerWithin, DIRECT_ANSWER_BYTES, HTTP_ANSWER_BYTES } from '../lib/answer.ts';
import { replay, runAttempt } from '../lib/attempt.ts';
import { StepspawnError } from '../lib/errors.ts';
import { isObject, type JsonObject, type JsonValue } from '../lib/json.ts';
import { prepare } from '../lib/prepare.ts';
import { readTask } from '../lib/request.ts';
import { followRetries, throwUntilDue } from '../lib/retry.ts';
import { awsSecrets } from '../lib/secrets-aws.ts';
import { attemptKey } from '../lib/store/keys.ts';
import { type AttemptId, readResult } from '../lib/store/result-store.ts';
import { Attempt, RUN_ID, type Task, TaskId, type TaskResult } from '../lib/task.ts';
import { checkInline, environment, lambda } from './entry.ts';
import { handOver, storedRequest } from './handover.ts';
import type { Answer, Call, RestEvent } from './http.ts';
import { observeResult, observeSubject, type Subject } from './observe.ts';
import { goesOn, lambdaPorts } from './ports.ts';
import { type Open, streamingHandler, streamSpawn, type Watching } from './stream.ts';
import { watchRun } from './watch-run.ts';

export const handler = lambda({
  needs_store: true,
  direct: async (event, context) => {
    const { store } = await environment();
    if (isObject(event.step)) return answerStep(event.step, context);
    const { follow_retries, ...given } = event;
    const request =
      typeof event.request_key === 'string' ? await storedRequest(store, event.request_key) : given;
    const task = readTask(request, 'required');
    const result = await (follow_retries === true ? newest(task, context) : attempt(task, context));
    return answerWithin(store, result, DIRECT_ANSWER_BYTES, Buffer.byteLength);
  },
  routes: [
    { method: 'POST', path: '/v1/spawn', answer: ({ body }, context) => answerSpawn(body, context) },
    { method: 'GET', path: '/v1/tasks/{task_id}/{attempt}', answer: answerResult },
    { method: 'POST', path: '/v1/tasks/{task_id}/{attempt}/cancel', answer: answerCancel },
  ],
});

/** For a streaming integration: the events of one attempt while it runs here. */
export const stream = streamingHandler(attempt);

/** The same for a server of our own. */
export function answerStream(event: RestEvent, context: Context, open: Open): Promise<void> {
  return goesOn(streamSpawn(event, context, attempt, open));
}

/** A step of a run, of which the plan reads the result from the store: the history of the workflow holds no values. */
async function answerStep({ expires_at, ...step }: JsonObject, context: Context) {
  const task = readTask(step, 'required');
  const expiry = typeof expires_at === 'string' ? Date.parse(expires_at) : Number.POSITIVE_INFINITY;
  if (Date.now() >= expiry) return { task_id: task.task_id, attempt: task.attempt, status: 'expired' };
  const { task_id, attempt: number, status } = await newest(task, context, expiry);
  return { task_id, attempt: number, status };
}

/**
 * The attempt, or of its rule's new attempts the one that is due: the same event is sent again while this throws
 * RetryDue. What runs ends at `expiry`, in milliseconds since the epoch.
 */
async function newest(task: Task, context: Context, expiry = Number.POSITIVE_INFINITY): Promise<TaskResult> {
  const results = await followRetries(
    task.attempt,
    (number) => attempt(within(expiry, { first_attempt: task.attempt, ...task, attempt: number }), context),
    async (result, next) => throwUntilDue(result, next),
  );
  return results.at(-1) ?? results[0];
}

function within(expiry: number, task: Task): Task {
  if (!Number.isFinite(expiry)) return task;
  const left = Math.max((expiry - Date.now()) / 1000, SHORTEST_SECS);
  return { ...task, timeout_secs: Math.min(task.timeout_secs ?? left, left) };
}
const SHORTEST_SECS = 0.001;

async function attempt(task: Task, context: Context, watching: Watching = {}): Promise<TaskResult> {
  const subject = subjectOf(task);
  observeSubject(subject);
  checkInline(task.blueprint, (await environment()).settings);
  let childMs: number | undefined;
  const ports = await lambdaPorts(context, (ms) => {
    childMs = ms;
  });
  const { run_id } = subject;
  const run = run_id === undefined ? undefined : watchRun(ports.store, run_id, ports.cancel_poll);
  const signals = [ports.signal, run?.signal].filter((signal) => signal !== undefined);
  try {
    const result = await runAttempt(task, { ...ports, ...watching, signal: AbortSignal.any(signals) });
    observeResult(result, childMs);
    return result;
  } finally {
    run?.stop();
  }
}

function subjectOf({ task_id, attempt: number, context }: Task): Subject {
  const run_id = context?.run_id;
  return {
    task_id,
    attempt: number,
    ...(typeof run_id === 'string' && RUN_ID.test(run_id) && { run_id }),
  };
}

/** A synchronous caller is answered within this time, with the result or with where it will be. */
const ANSWER_WITHIN_MS = 25_000;

async function answerSpawn(body: JsonValue, context: Context): Promise<Answer> {
  const task = readTask(body, 'made');
  const result = await attemptWithin(task, context);
  if (result?.error) replay(result);
  return result ? answerOf(result) : { status: 202, body: whereOf(task) };
}

/** Runs the attempt where this entry runs attempts; null when it takes longer than a caller can wait. */
async function attemptWithin(task: Task, context: Context): Promise<TaskResult | null> {
  const { settings, store } = await environment();
  if (settings.spawn_function === undefined) {
    const running = goesOn(attempt(task, context));
    return settings.keeps_running ? soon(running, ANSWER_WITHIN_MS) : running;
  }
  observeSubject(subjectOf(task));
  checkInline(task.blueprint, settings);
  await prepare(task, { store, secrets: awsSecrets(settings.secrets, process.env) });
  return handOver(store, settings.spawn_function, task, Date.now() + ANSWER_WITHIN_MS);
}

/** The result, or null when it takes longer; then it goes on, and what it comes to lies in the store. */
async function soon(running: Promise<TaskResult>, ms: number): Promise<TaskResult | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(resolve, ms, null);
  running.catch(() => undefined);
  try {
    return await Promise.race([running, late]);
  } finally {
    clearTimeout(timer);
  }
}

function whereOf({ task_id, attempt: number }: AttemptId) {
  return { task_id, attempt: number, location: `/v1/tasks/${task_id}/${number}` };
}

async function answerResult({ params }: Call): Promise<Answer> {
  const id = attemptOf(params);
  const { store } = await environment();
  const result = await readResult(store, id);
  if (result?.error) return { status: 200, body: result };
  if (result) return answerOf(result);
  if (await store.read(attemptKey(id.task_id, id.attempt, 'claim.json'))) {
    return { status: 202, body: whereOf(id) };
  }
  throw new StepspawnError('NotFound', `no attempt ${id.attempt} of task ${id.task_id}`);
}

async function answerCancel({ params }: Call): Promise<Answer> {
  const id = attemptOf(params);
  const { store } = await environment();
  await store.create(attemptKey(id.task_id, id.attempt, 'cancel.json'), '{}');
  return { status: 202, body: id };
}

async function answerOf(result: TaskResult): Promise<Answer> {
  const { store } = await environment();
  // the body is a JSON string inside the proxy response: quotes and backslashes count twice
  const body = await answerWithin(store, result, HTTP_ANSWER_BYTES, (text) =>
    Buffer.byteLength(JSON.stringify(text)),
  );
  return { status: 200, body };
}

function attemptOf(params: Call['params']): AttemptId {
  const task_id = TaskId.safeParse(params.task_id);
  const number = Attempt.safeParse(Number(params.attempt));
  if (!task_id.success || !number.success)
    throw new StepspawnError(
      'InvalidTask',
      `'${params.task_id}/${params.attempt}' is not a task id and an attempt from 1 to 9999`,
    );
  return { task_id: task_id.data, attempt: number.data };
}
