/** `plan`: one hop of a run for the state machine; a run's status and its cancelling for the API. */
import { randomBytes } from 'node:crypto';
import type { Context } from 'aws-lambda';
import * as z from 'zod/mini';
import { StepspawnError } from '../lib/errors.ts';
import { type Hop, planHop } from '../lib/hop.ts';
import { canonicalJson, type JsonValue, sha256 } from '../lib/json.ts';
import { readAs } from '../lib/request.ts';
import { startRun } from '../lib/start-run.ts';
import { runKey } from '../lib/store/keys.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { cancelRun, isCancelled, newestRound, readRun } from '../lib/store/run-store.ts';
import { AnyObject, Json, RUN_ID, Seconds } from '../lib/task.ts';
import { checkInline, environment, lambda, required } from './entry.ts';
import { startExecution } from './handover.ts';
import type { Answer, Call } from './http.ts';
import { observeSubject } from './observe.ts';

export const handler = lambda({
  needs_store: true,
  direct: async (event) => {
    const run_id = runId(required(event, 'run_id'));
    observeSubject({ run_id });
    const { store } = await environment();
    return answerHop(store, await planHop(store, run_id, Date.now()));
  },
  routes: [
    { method: 'POST', path: '/v1/runs', answer: ({ body }, context) => answerStart(body, context) },
    { method: 'GET', path: '/v1/runs/{run_id}', answer: answerRun },
    { method: 'POST', path: '/v1/runs/{run_id}/cancel', answer: answerCancel },
  ],
});

const RunBody = z.strictObject({
  blueprint: Json,
  ctx: z.optional(Json),
  run_id: z.optional(z.string()),
  context: z.optional(AnyObject),
  ttl_secs: z.optional(Seconds),
});

/** More steps than this travel by key: a state's input is limited to 262,144 bytes, and an inline Map to 40 lanes. */
const INLINE_STEPS = 40;
const INLINE_STEPS_BYTES = 200_000;

/** The hop as the state machine takes it: a wide list of steps lies in the store, for a distributed Map. */
async function answerHop(store: ObjectStore, hop: Hop) {
  if (hop.status !== 'dispatch') return hop;
  const text = canonicalJson(hop.steps.map((step) => ({ ...step })));
  if (hop.steps.length <= INLINE_STEPS && Buffer.byteLength(text) <= INLINE_STEPS_BYTES) return hop;
  const name = `wide/${sha256(text).slice(0, 32)}.json`;
  await store.create(runKey(hop.run_id, name), text);
  const { host: bucket, pathname } = new URL(store.url);
  const key = `${pathname.slice(1)}/${runKey(hop.run_id, name)}`.replace(/^\//, '');
  return { run_id: hop.run_id, status: hop.status, steps: [], wide: { bucket, key } };
}

/** Sets the run up and has it run by the workflow, or in this process; a caller that sends it again finds it. */
async function answerStart(body: JsonValue, context: Context): Promise<Answer> {
  const given = readAs(RunBody, body);
  const run_id = runId(given.run_id ?? `R-${randomBytes(8).toString('hex')}`);
  observeSubject({ run_id });
  const { settings, store } = await environment();
  if (!settings.keeps_running && settings.state_machine_arn === undefined)
    throw new StepspawnError('InvalidTask', 'runs cannot be started here: no workflow is configured');
  checkInline(given.blueprint, settings);
  const request = { ...given, run_id };
  const { round } = await startRun(request, store);
  if (!round.ended) {
    if (settings.state_machine_arn !== undefined) await startExecution(settings.state_machine_arn, run_id);
    else await (await import('./run-here.ts')).runHere(request, context);
  }
  return { status: 202, body: { run_id, location: `/v1/runs/${run_id}` } };
}

async function answerRun(call: Call): Promise<Answer> {
  const { run_id, store, record } = await knownRun(call);
  const round = await newestRound(store, run_id, record);
  const { ended } = round;
  // where the workflow was stopped nobody else tells how the run ended
  if (!ended)
    return {
      status: 200,
      body: { run_id, status: (await isCancelled(store, round)) ? 'cancelled' : 'running' },
    };
  const { status, ctx, error, totals } = ended;
  return {
    status: 200,
    body: {
      run_id,
      status,
      ...(totals && { totals }),
      ...(ctx !== undefined && { ctx }),
      ...(error && { error }),
    },
  };
}

async function answerCancel(call: Call): Promise<Answer> {
  const { run_id, store } = await knownRun(call);
  await cancelRun(store, run_id);
  return { status: 202, body: { run_id } };
}

/** The run that the path names. Throws InvalidTask and NotFound. */
async function knownRun({ params }: Call) {
  const run_id = runId(params.run_id);
  const { store } = await environment();
  const record = await readRun(store, run_id);
  if (!record) throw new StepspawnError('NotFound', `no run ${run_id}`);
  return { run_id, store, record };
}

function runId(value: unknown): string {
  if (typeof value === 'string' && RUN_ID.test(value)) return value;
  throw new StepspawnError('InvalidTask', `run id '${value}' does not match ${RUN_ID.source}`);
}
