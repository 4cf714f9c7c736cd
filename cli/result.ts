import { StepspawnError } from '../lib/errors.ts';
import { loadValue } from '../lib/settle.ts';
import { attemptKey } from '../lib/store/keys.ts';
import { newestAttempt, readResult } from '../lib/store/result-store.ts';
import { EXIT, print } from './output.ts';
import { chosenStore } from './ports.ts';

/** `stepspawn result`: the stored result with the value inline; the newest attempt when none is named. */
export async function resultCommand(
  task_id: string,
  given: number | undefined,
  options: { readonly store?: string },
): Promise<void> {
  const store = chosenStore(options.store);
  const attempt = given ?? (await newestAttempt(store, task_id));
  const result = attempt === null ? null : await readResult(store, { task_id, attempt });
  if (!result) {
    if (attempt !== null && (await store.read(attemptKey(task_id, attempt, 'claim.json'))))
      throw new StepspawnError(
        'AttemptInProgress',
        `attempt ${attempt} of task ${task_id} has no result yet`,
      );
    const what = attempt === null ? `task ${task_id}` : `attempt ${attempt} of task ${task_id}`;
    throw new StepspawnError('NotFound', `no ${what} in ${store.url}`);
  }
  const { value_ref: _, preview: __, ...rest } = result;
  print(result.error ? rest : { ...rest, value: await loadValue(store, result) });
  process.exitCode = result.ok ? EXIT.ok : EXIT.notPassed;
}
