import { StepspawnError } from '../lib/errors.ts';
import { attemptKey, runKey } from '../lib/store/keys.ts';
import { readRun } from '../lib/store/run-store.ts';
import { print } from './output.ts';
import { chosenStore } from './ports.ts';

/** `stepspawn cancel`: writes the cancel marker; who holds the run or attempt ends its children within seconds. */
export async function cancelCommand(
  id: string,
  attempt: number | undefined,
  options: { readonly store?: string },
): Promise<void> {
  const store = chosenStore(options.store);
  const exists =
    attempt === undefined
      ? await readRun(store, id)
      : await store.read(attemptKey(id, attempt, 'claim.json'));
  if (!exists) {
    const what = attempt === undefined ? `run ${id}` : `attempt ${attempt} of task ${id}`;
    throw new StepspawnError('NotFound', `no ${what} in ${store.url}`);
  }
  await store.create(
    attempt === undefined ? runKey(id, 'cancel.json') : attemptKey(id, attempt, 'cancel.json'),
    '{}',
  );
  print(attempt === undefined ? { run_id: id } : { task_id: id, attempt });
}
