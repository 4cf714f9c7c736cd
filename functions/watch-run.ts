/** An attempt of a step ends with its run: a run's cancel marker reaches the children that run for it. */
import { type Poll, pollFor } from '../lib/poll.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { isRunCancelled } from '../lib/store/run-store.ts';

/** Looks at once and then as `poll` says; aborts with the reason `cancelled`. A look that fails is made up for by the next. */
export function watchRun(
  store: ObjectStore,
  run_id: string,
  poll: Poll,
): { readonly signal: AbortSignal; readonly stop: () => void } {
  const controller = new AbortController();
  const stop = pollFor({ ...poll, first_ms: 0 }, async () => {
    if (await isRunCancelled(store, run_id)) controller.abort('cancelled');
  });
  return { signal: controller.signal, stop };
}
