/** Puts what an attempt came to into the store, values and streams of any size. */
import { createReadStream } from 'node:fs';
import { now } from './clock.ts';
import { StepspawnError } from './errors.ts';
import { canonicalJson, type JsonValue, sha256 } from './json.ts';
import { INLINE_VALUE_BYTES, PREVIEW_CHARS, TAIL_BYTES } from './limits.ts';
import { attemptKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { inTime } from './store/patience.ts';
import { type AttemptId, parseStored } from './store/result-store.ts';
import type { StreamSummary, TaskResult } from './task.ts';
import type { Collected, Printed } from './worker/collect.ts';

/** The value in the result where it is small, else in its own object, referenced. */
export async function storeValue(
  store: ObjectStore,
  id: AttemptId,
  value: JsonValue,
): Promise<Pick<TaskResult, 'value' | 'value_ref' | 'preview'>> {
  if (Buffer.byteLength(canonicalJson(value)) <= INLINE_VALUE_BYTES) return { value };
  return referTo(store, attemptKey(id.task_id, id.attempt, 'value.json'), value);
}

/** Writes the value as an object of its own and tells where it is. */
export async function referTo(
  store: ObjectStore,
  key: string,
  value: JsonValue,
): Promise<Pick<TaskResult, 'value_ref' | 'preview'>> {
  const bytes = Buffer.from(canonicalJson(value));
  await store.upload(key, async function* () {
    yield bytes;
  });
  const preview = bytes.toString('utf8', 0, PREVIEW_CHARS * 4).slice(0, PREVIEW_CHARS);
  return { value_ref: { key, size_bytes: bytes.length, sha256: sha256(bytes) }, preview };
}

/** The value of a result, wherever it lies. */
export async function loadValue(store: ObjectStore, result: TaskResult): Promise<JsonValue> {
  if (!result.value_ref) return result.value ?? null;
  const { key } = result.value_ref;
  const found = await store.read(key);
  if (!found) throw new StepspawnError('StoreUnavailable', `the stored object ${key} is missing`);
  return parseStored(key, found);
}

/** Each stream that is longer than its tail is stored whole; so are the events of a stream mode. */
export async function storeStreams(
  store: ObjectStore,
  id: AttemptId,
  collected: Collected,
): Promise<Pick<TaskResult, 'stdout' | 'stderr'>> {
  const { events } = collected;
  if (events !== null)
    await store.upload(attemptKey(id.task_id, id.attempt, 'events.ndjson'), () => createReadStream(events));
  const put = async (name: string, { size_bytes, tail, path }: Printed): Promise<StreamSummary> => {
    if (size_bytes <= TAIL_BYTES) return { size_bytes, tail, key: null };
    const key = attemptKey(id.task_id, id.attempt, name);
    await store.upload(key, () => createReadStream(path));
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
