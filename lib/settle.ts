/** Puts what an attempt came to into the store, values and streams of any size. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { now } from './clock.ts';
import { StepspawnError } from './errors.ts';
import { canonicalJson, compactJson, type JsonValue } from './json.ts';
import { INLINE_VALUE_BYTES, PREVIEW_CHARS, TAIL_BYTES } from './limits.ts';
import { attemptKey } from './store/keys.ts';
import type { Content, ObjectStore } from './store/object-store.ts';
import { inTime } from './store/patience.ts';
import { type AttemptId, parseStored } from './store/result-store.ts';
import type { StreamSummary, TaskResult } from './task.ts';
import type { Collected, Printed } from './worker/collect.ts';
import type { LargeValue } from './worker/large-output.ts';
import { head } from './worker/text.ts';

/** The value in the result where it is small, else in its own object, referenced. */
export async function storeValue(
  store: ObjectStore,
  id: AttemptId,
  outcome: LargeValue,
): Promise<Pick<TaskResult, 'value' | 'value_ref' | 'preview'>> {
  const key = attemptKey(id.task_id, id.attempt, 'value.json');
  if ('content' in outcome) return upload(store, key, outcome.content);
  const { value } = outcome;
  const text = canonicalJson(value);
  if (Buffer.byteLength(text) <= INLINE_VALUE_BYTES) return { value };
  return upload(store, key, () => once(text));
}

/** Writes the value as an object of its own and tells where it is. */
export async function referTo(
  store: ObjectStore,
  key: string,
  value: JsonValue,
): Promise<Pick<TaskResult, 'value_ref' | 'preview'>> {
  return upload(store, key, () => once(canonicalJson(value)));
}

/** What is told of an object that is referenced. */
interface Measure {
  readonly size_bytes: number;
  readonly sha256: string;
  readonly preview: string;
}

/** Stores content as it passes; size, digest and preview are taken from its bytes. */
export async function upload(
  store: ObjectStore,
  key: string,
  content: Content,
): Promise<Pick<TaskResult, 'value_ref' | 'preview'>> {
  let passed: Measure | undefined;
  const measured = async function* (): AsyncGenerator<Uint8Array> {
    const hash = createHash('sha256');
    let size_bytes = 0;
    let beginning = Buffer.alloc(0);
    for await (const chunk of content()) {
      hash.update(chunk);
      size_bytes += chunk.length;
      if (beginning.length < PREVIEW_BYTES) {
        beginning = Buffer.concat([beginning, chunk.subarray(0, PREVIEW_BYTES - beginning.length)]);
      }
      yield chunk;
    }
    passed = { size_bytes, sha256: hash.digest('hex'), preview: head(beginning.toString(), PREVIEW_CHARS) };
  };
  await store.upload(key, measured);
  if (!passed) throw new StepspawnError('StoreUnavailable', `the store did not take the whole of ${key}`);
  const { preview, ...measure } = passed;
  return { value_ref: { key, ...measure }, preview };
}
/** Enough for the characters of a preview in UTF-8. */
const PREVIEW_BYTES = 4 * PREVIEW_CHARS;

async function* once(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

/** A larger value cannot become part of a flow's context. */
const MAX_LOADED_BYTES = 256 * 1024 * 1024;

/** The value of a result, wherever it lies. Throws InvalidTask for one that is too large to be held in memory. */
export async function loadValue(store: ObjectStore, result: TaskResult): Promise<JsonValue> {
  if (!result.value_ref) return result.value ?? null;
  const { key } = result.value_ref;
  if (result.value_ref.size_bytes > MAX_LOADED_BYTES) {
    throw new StepspawnError(
      'InvalidTask',
      `the value ${key} has ${result.value_ref.size_bytes} bytes, a flow can take ${MAX_LOADED_BYTES}; pass such data by file`,
    );
  }
  const found = await store.read(key);
  if (!found) throw new StepspawnError('StoreUnavailable', `the stored object ${key} is missing`);
  return parseStored(key, found);
}

/** The JSON text of a result's value in chunks, wherever it lies. Throws StoreUnavailable when it is missing. */
export async function openValue(store: ObjectStore, result: TaskResult): Promise<AsyncIterable<Uint8Array>> {
  if (!result.value_ref) return once(compactJson(result.value ?? null));
  const { key } = result.value_ref;
  const stream = await store.open(key);
  if (!stream) throw new StepspawnError('StoreUnavailable', `the stored object ${key} is missing`);
  return stream;
}

/** Each stream that is longer than its tail is stored whole; so are the events and artifacts of a stream mode. */
export async function storeStreams(
  store: ObjectStore,
  id: AttemptId,
  collected: Collected,
): Promise<Pick<TaskResult, 'stdout' | 'stderr'>> {
  const { events } = collected;
  if (events !== null)
    await store.upload(attemptKey(id.task_id, id.attempt, 'events.ndjson'), () => createReadStream(events));
  for (const [name, path] of collected.artifacts)
    await store.upload(attemptKey(id.task_id, id.attempt, `artifacts/${name}`), () => createReadStream(path));
  const put = async (name: string, { size_bytes, tail, content, file }: Printed): Promise<StreamSummary> => {
    if (size_bytes <= TAIL_BYTES) return { size_bytes, tail, key: null };
    const key = attemptKey(id.task_id, id.attempt, name);
    await store.upload(key, content, file);
    return { size_bytes, tail, key };
  };
  return { stdout: await put('stdout', collected.stdout), stderr: await put('stderr', collected.stderr) };
}

/** Bytes per second that a store which works takes at the least. */
const SLOWEST_BYTES_PER_SEC = 1024 * 1024;

export interface Persistence {
  /** milliseconds since the epoch until which it is tried again */
  readonly deadline: number;
  /** milliseconds that one try may take; what is large gets more */
  readonly patience: number;
  /** how much is written */
  readonly bytes?: number;
  /** how often it is tried at the most */
  readonly tries?: number;
}

/** Calls `write` again while the store is unavailable. Throws what the last try threw. */
export async function persist<T>(
  { deadline, patience, bytes = 0, tries = Number.POSITIVE_INFINITY }: Persistence,
  write: () => Promise<T>,
): Promise<T> {
  const perTry = patience + (bytes / SLOWEST_BYTES_PER_SEC) * 1000;
  for (let tried = 1, pause = 100; ; tried++, pause = Math.min(pause * 2, 2000)) {
    try {
      return await inTime(write(), Math.max(1, Math.min(perTry, deadline - now())), 'an attempt');
    } catch (error) {
      const retryable = error instanceof StepspawnError && error.code === 'StoreUnavailable';
      if (!retryable || tried >= tries || now() + pause > deadline) throw error;
      await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
    }
  }
}
