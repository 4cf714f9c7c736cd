/** What a caller is answered: the value inline where the whole answer stays small enough, else referenced. */
import { compactJson } from './json.ts';
import { loadValue, referTo } from './settle.ts';
import { attemptKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import type { TaskResult } from './task.ts';

/** Whole answer of a direct Lambda event, in bytes: Step Functions ends an execution over 262,144. */
export const DIRECT_ANSWER_BYTES = 200_000;
/** Whole proxy response, in bytes: Lambda refuses over 6 MB. */
export const HTTP_ANSWER_BYTES = 5_000_000;

/**
 * The result with its value inline while `sizeOf` the answer stays under `limit`, else with a reference and a preview;
 * likewise its list of artifacts. Nothing is cut: what is not inline is stored whole.
 */
export async function answerWithin(
  store: ObjectStore,
  result: TaskResult,
  limit: number,
  sizeOf: (text: string) => number,
): Promise<TaskResult> {
  const inline = await inlined(store, result, limit);
  if (inline && sizeOf(compactJson(inline)) < limit) return inline;
  const small = await withValueReferred(store, result);
  const { artifacts, ...rest } = small;
  if (artifacts === undefined || sizeOf(compactJson(small)) < limit) return small;
  const key = attemptKey(result.task_id, result.attempt, 'artifacts.json');
  const { value_ref: artifacts_ref } = await referTo(
    store,
    key,
    artifacts.map((one) => ({ ...one })),
  );
  return { ...rest, ...(artifacts_ref && { artifacts_ref }) };
}

async function withValueReferred(store: ObjectStore, result: TaskResult): Promise<TaskResult> {
  if (result.value_ref || result.value === undefined) return result;
  const { value, ...rest } = result;
  const key = attemptKey(result.task_id, result.attempt, 'value.json');
  return { ...rest, ...(await referTo(store, key, value)) };
}

async function inlined(store: ObjectStore, result: TaskResult, limit: number): Promise<TaskResult | null> {
  if (!result.value_ref) return result;
  if (result.value_ref.size_bytes >= limit) return null;
  const { value_ref: _, preview: __, ...rest } = result;
  return { ...rest, value: await loadValue(store, result) };
}
