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
 * The result with its value inline while `sizeOf` the answer stays under `limit`, else with a reference and a preview.
 * Nothing is cut: what is not inline is stored whole.
 */
export async function answerWithin(
  store: ObjectStore,
  result: TaskResult,
  limit: number,
  sizeOf: (text: string) => number,
): Promise<TaskResult> {
  const inline = await inlined(store, result, limit);
  if (inline && sizeOf(compactJson(inline)) < limit) return inline;
  if (result.value_ref || result.value === undefined) return result;
  const { value, ...rest } = result;
  return {
    ...rest,
    ...(await referTo(store, attemptKey(result.task_id, result.attempt, 'value.json'), value)),
  };
}

async function inlined(store: ObjectStore, result: TaskResult, limit: number): Promise<TaskResult | null> {
  if (!result.value_ref) return result;
  if (result.value_ref.size_bytes >= limit) return null;
  const { value_ref: _, preview: __, ...rest } = result;
  return { ...rest, value: await loadValue(store, result) };
}
