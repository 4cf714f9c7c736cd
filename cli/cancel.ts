import { StepspawnError } from '../lib/errors.ts';
import { attemptKey } from '../lib/store/keys.ts';
import { cancelRun, readRun } from '../lib/store/run-store.ts';
import { print } from './output.ts';
import { chosenStore } from './ports.ts';

/** `stepspawn cancel`: writes the cancel marker; who holds the run or attempt ends its children within seconds. */
export async function cancelCommand(
  id: string,
  attempt: number | undefined,
  options: { readonly store?: string },
): Promise<void> {
  const store = chosenStore(options.store);
  if (attempt === undefined) {
    if (!(await readRun(store, id))) throw new StepspawnError('NotFound', `no run ${id} in ${store.url}`);
    await cancelRun(store, id);
    print({ run_id: id });
    return;
  }
  if (!(await store.read(attemptKey(id, attempt, 'claim.json'))))
    throw new StepspawnError('NotFound', `no attempt ${attempt} of task ${id} in ${store.url}`);
  await store.create(attemptKey(id, attempt, 'cancel.json'), '{}');
  print({ task_id: id, attempt });
}
