/** `cancel-marker`: marks the run of an execution that was stopped or ran out of time as cancelled. */
import * as z from 'zod/mini';
import { StepspawnError } from '../lib/errors.ts';
import { cancelRun } from '../lib/store/run-store.ts';
import { RUN_ID } from '../lib/task.ts';
import { environment, lambda } from './entry.ts';
import { observeSubject } from './observe.ts';

/** The part of a status change of Step Functions that matters here. */
const StatusChange = z.object({ detail: z.object({ name: z.string() }) });
/** `<run_id>-<n>` */
const EXECUTION_NAME = /^(.+)-[1-9]\d*$/;

export const handler = lambda({
  needs_store: true,
  direct: async (event) => {
    const change = StatusChange.safeParse(event);
    const name = change.data?.detail.name ?? '';
    const run_id = EXECUTION_NAME.exec(name)?.[1] ?? '';
    if (!RUN_ID.test(run_id))
      throw new StepspawnError('InvalidTask', `execution '${name}' is not named <run_id>-<n>`);
    observeSubject({ run_id });
    const { store } = await environment();
    await cancelRun(store, run_id);
    return { run_id };
  },
  routes: [],
});
