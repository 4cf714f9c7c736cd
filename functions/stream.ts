/** One attempt as server-sent events: `accepted`, `progress`, `partial`, `output`, then `result` or `error`. */
import type { Writable } from 'node:stream';
import type { Context } from 'aws-lambda';
import { answerWithin, HTTP_ANSWER_BYTES } from '../lib/answer.ts';
import { ERRORS, errorBody, StepspawnError } from '../lib/errors.ts';
import { compactJson } from '../lib/json.ts';
import type { AttemptPorts } from '../lib/ports.ts';
import { readTask } from '../lib/request.ts';
import { readResult } from '../lib/store/result-store.ts';
import type { Task, TaskResult } from '../lib/task.ts';
import { environment } from './entry.ts';
import { errorAnswer, type RestEvent, readBody } from './http.ts';
import { logFault } from './observe.ts';

/** A comment this often keeps connections open that are cut when idle. */
const KEEP_ALIVE_MS = 15_000;
const IN_PROGRESS_POLL_MS = 1000;
/** What is left of the invocation when another holder's result is no longer waited for. */
const LEAVE_MS = 5000;

export type Watching = Pick<AttemptPorts, 'onEvent' | 'onOutput'>;
/** Runs an attempt where this entry runs attempts. */
export type Run = (task: Task, context: Context, watching: Watching) => Promise<TaskResult>;
/** Begins the answer. */
export type Open = (status: number, headers: Readonly<Record<string, string>>) => Writable;

const EVENTS = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };

/** Answers `POST /v1/spawn/stream`. What is wrong with the request is answered as JSON with its own status. */
export async function streamSpawn(event: RestEvent, context: Context, run: Run, open: Open): Promise<void> {
  let task: Task;
  try {
    task = readTask(readBody(event), 'made');
  } catch (error) {
    const out = open(ERRORS[errorBody(error).code].http, { 'content-type': 'application/json' });
    // written before the end: the metadata of a streamed answer goes out with the first write only
    out.write(compactJson(errorAnswer(error, event, context)));
    out.end();
    return;
  }
  const out = open(200, EVENTS);
  const { task_id, attempt } = task;
  /** False while the reader is slower than the child: what is only for watching is then left out. */
  const send = (name: string, data: unknown): boolean =>
    out.write(`event: ${name}\ndata: ${compactJson(data)}\n\n`);
  const watch = (name: string, data: unknown): void => {
    if (!out.writableNeedDrain) send(name, data);
  };
  send('accepted', { task_id, attempt, location: `/v1/tasks/${task_id}/${attempt}` });
  const keepAlive = setInterval(() => out.write(': still running\n\n'), KEEP_ALIVE_MS);
  try {
    const result = await settled(task, context, run, {
      onEvent: (found) => {
        if (found.type === 'progress' || found.type === 'partial') watch(found.type, found);
      },
      onOutput: (text) => watch('output', { text }),
    });
    const { store } = await environment();
    send('result', await answerWithin(store, result, HTTP_ANSWER_BYTES, Buffer.byteLength));
  } catch (error) {
    if (ERRORS[errorBody(error).code].http >= 500) logFault(error);
    send('error', errorAnswer(error, event, context));
  } finally {
    clearInterval(keepAlive);
    out.end();
  }
}

/** The result of our attempt, or of the holder that works on it already. */
async function settled(task: Task, context: Context, run: Run, watching: Watching): Promise<TaskResult> {
  try {
    return await run(task, context, watching);
  } catch (error) {
    if (!(error instanceof StepspawnError) || error.code !== 'AttemptInProgress') throw error;
    const { store } = await environment();
    while (context.getRemainingTimeInMillis() > LEAVE_MS) {
      await new Promise((resolve) => setTimeout(resolve, IN_PROGRESS_POLL_MS));
      const result = await readResult(store, task);
      if (result) return result;
    }
    throw error;
  }
}

/** What the Runtime Interface Client offers to functions that answer piece by piece. */
interface StreamingRuntime {
  readonly streamifyResponse: (
    handler: (event: unknown, out: Writable, context: Context) => Promise<void>,
  ) => unknown;
  readonly HttpResponseStream: { readonly from: (out: Writable, metadata: unknown) => Writable };
}

/** The Lambda handler for a streaming integration; undefined where the runtime cannot stream. */
export function streamingHandler(run: Run): unknown {
  const { streamifyResponse, HttpResponseStream } =
    (globalThis as { readonly awslambda?: Partial<StreamingRuntime> }).awslambda ?? {};
  if (!streamifyResponse || !HttpResponseStream) return undefined;
  return streamifyResponse((event, out, context) =>
    streamSpawn(event as RestEvent, context, run, (statusCode, headers) =>
      HttpResponseStream.from(out, { statusCode, headers }),
    ),
  );
}
