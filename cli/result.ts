import { StepspawnError } from '../lib/errors.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { claimState, newestAttempt, readResult } from '../lib/store/result-store.ts';
import { EXIT } from './output.ts';
import { chosenStore } from './ports.ts';
import { printResult } from './print-result.ts';

/** `stepspawn result`: the stored result with the value inline; the newest attempt when none is named. */
export async function resultCommand(
  task_id: string,
  given: number | undefined,
  options: { readonly store?: string },
): Promise<void> {
  const store = chosenStore(options.store);
  const attempt = given ?? (await newestAttempt(store, task_id));
  const result = attempt === null ? null : await readResult(store, { task_id, attempt });
  if (!result) throw await missing(store, task_id, attempt);
  await printResult(store, result);
  process.exitCode = result.ok ? EXIT.ok : EXIT.notPassed;
}

/** Why there is no result: unknown, still running, or given back. */
async function missing(store: ObjectStore, task_id: string, attempt: number | null): Promise<StepspawnError> {
  if (attempt === null) return new StepspawnError('NotFound', `no task ${task_id} in ${store.url}`);
  const state = await claimState(store, { task_id, attempt });
  const what = `attempt ${attempt} of task ${task_id}`;
  if (state === 'none') return new StepspawnError('NotFound', `no ${what} in ${store.url}`);
  if (state === 'held') return new StepspawnError('AttemptInProgress', `${what} has no result yet`);
  return new StepspawnError(
    'NotFound',
    `${what} was interrupted and has no result; send its request again to start it`,
  );
}
