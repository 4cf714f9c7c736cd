/** `plan`: one hop of a run for the state machine; a run's status and its cancelling for the API. */
import { StepspawnError } from '../lib/errors.ts';
import { planHop } from '../lib/hop.ts';
import { runKey } from '../lib/store/keys.ts';
import { newestRound, readRun } from '../lib/store/run-store.ts';
import { RUN_ID } from '../lib/task.ts';
import { environment, lambda, required } from './entry.ts';
import type { Answer, Call } from './http.ts';
import { observeSubject } from './observe.ts';

export const handler = lambda({
  direct: async (event) => {
    const run_id = runId(required(event, 'run_id'));
    observeSubject({ run_id });
    const { store } = await environment();
    return planHop(store, run_id, Date.now());
  },
  routes: [
    { method: 'GET', path: '/v1/runs/{run_id}', answer: answerRun },
    { method: 'POST', path: '/v1/runs/{run_id}/cancel', answer: answerCancel },
  ],
});

async function answerRun({ params }: Call): Promise<Answer> {
  const run_id = runId(params.run_id);
  const { store } = await environment();
  if (!(await readRun(store, run_id))) throw new StepspawnError('NotFound', `no run ${run_id}`);
  const { ended } = await newestRound(store, run_id);
  if (!ended) return { status: 200, body: { run_id, status: 'running' } };
  const { status, ctx, error } = ended;
  return {
    status: 200,
    body: { run_id, status, ...(ctx !== undefined && { ctx }), ...(error && { error }) },
  };
}

async function answerCancel({ params }: Call): Promise<Answer> {
  const run_id = runId(params.run_id);
  const { store } = await environment();
  if (!(await readRun(store, run_id))) throw new StepspawnError('NotFound', `no run ${run_id}`);
  await store.create(runKey(run_id, 'cancel.json'), '{}');
  return { status: 202, body: { run_id } };
}

function runId(value: unknown): string {
  if (typeof value === 'string' && RUN_ID.test(value)) return value;
  throw new StepspawnError('InvalidTask', `run id '${value}' does not match ${RUN_ID.source}`);
}
