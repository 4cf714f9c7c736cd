/**
 * On AWS a function freezes once it has answered, so a request is stored and handed to the worker, which is invoked
 * asynchronously with its key; a run is handed to the state machine.
 */
import { StepspawnError } from '../lib/errors.ts';
import { canonicalJson, compactJson, type JsonObject } from '../lib/json.ts';
import { attemptKey } from '../lib/store/keys.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { parseStored, readResult } from '../lib/store/result-store.ts';
import type { Task, TaskResult } from '../lib/task.ts';

const FIRST_LOOK_MS = 200;
const LONGEST_PAUSE_MS = 2000;

/**
 * Has the worker run the task and waits for the result until `deadline` (milliseconds since the epoch); null when it
 * takes longer. The same request again finds what it started. Throws AttemptConflict for another request.
 */
export async function handOver(
  store: ObjectStore,
  worker: string,
  task: Task,
  deadline: number,
): Promise<TaskResult | null> {
  const settled = await readResult(store, task);
  const request_key = await storeRequest(store, task);
  if (settled) return settled;
  await invoke(worker, { request_key });
  for (
    let pause = FIRST_LOOK_MS;
    Date.now() + pause < deadline;
    pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)
  ) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    const result = await readResult(store, task);
    if (result) return result;
  }
  return null;
}

/** The request that was handed over under a key. Throws NotFound. */
export async function storedRequest(store: ObjectStore, key: string): Promise<JsonObject> {
  const found = await store.read(key);
  if (!found) throw new StepspawnError('NotFound', `no request ${key}`);
  return parseStored(key, found) as JsonObject;
}

async function storeRequest(store: ObjectStore, task: Task): Promise<string> {
  const key = attemptKey(task.task_id, task.attempt, 'request.json');
  const text = compactJson(task);
  if (await store.create(key, text)) return key;
  const found = await store.read(key);
  if (found?.body.toString() === text) return key;
  throw new StepspawnError(
    'AttemptConflict',
    `attempt ${task.attempt} of task ${task.task_id} was already used with a different request; use another task id or attempt`,
  );
}

async function invoke(worker: string, event: JsonObject): Promise<void> {
  const { InvokeCommand, LambdaClient } = await import('@aws-sdk/client-lambda');
  const command = new InvokeCommand({
    FunctionName: worker,
    InvocationType: 'Event',
    Payload: Buffer.from(canonicalJson(event)),
  });
  await new LambdaClient({}).send(command).catch((error: unknown) => {
    throw unavailable(`the worker ${worker} cannot be invoked`, error);
  });
}

/** More executions of one run than this are a fault of ours. */
const MAX_EXECUTIONS = 10_000;

/**
 * Has a run that has not ended go on: starts its next execution `<run_id>-<n>`, unless the newest one is running. A name
 * cannot be used again, so those that ended are passed over.
 */
export async function startExecution(stateMachineArn: string, run_id: string): Promise<void> {
  const { DescribeExecutionCommand, SFNClient, StartExecutionCommand } = await import('@aws-sdk/client-sfn');
  const client = new SFNClient({});
  for (let execution = 1; execution <= MAX_EXECUTIONS; execution++) {
    const name = `${run_id}-${execution}`;
    const input = canonicalJson({ run_id, execution });
    try {
      await client.send(new StartExecutionCommand({ stateMachineArn, name, input }));
      return;
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'ExecutionAlreadyExists')
        throw unavailable('the workflow cannot be started', error);
    }
    const executionArn = `${stateMachineArn.replace(':stateMachine:', ':execution:')}:${name}`;
    const { status } = await client
      .send(new DescribeExecutionCommand({ executionArn }))
      .catch((error: unknown) => {
        throw unavailable('the workflow cannot be looked at', error);
      });
    if (status === 'RUNNING') return;
  }
}

function unavailable(what: string, error: unknown): StepspawnError {
  const why = error instanceof Error ? error.name : String(error);
  return new StepspawnError('StoreUnavailable', `${what}: ${why}`, { cause: error });
}
