/** The workflow as it would be deployed: its state machine interpreted, its bundles as functions, a real S3 server. */
import { mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runAttempt } from '../../lib/attempt.ts';
import { readSource } from '../../lib/blueprint/source.ts';
import { type JsonObject, type JsonValue, parseJson, resolvePointer } from '../../lib/json.ts';
import { readTask } from '../../lib/request.ts';
import { stepTaskId } from '../../lib/step.ts';
import { claimState, readResult } from '../../lib/store/result-store.ts';
import { cloneProject } from '../infra/synth.ts';
import { oneStep, shellAgents, step } from '../support/documents.ts';
import { realPorts, temporaryFolder } from '../support/ports.ts';
import { isRunning } from '../support/processes.ts';
import { expectTold, SCENARIOS, type Told } from '../support/scenarios.ts';
import { type Call, startWorkflow, type Workflow } from '../support/workflow.ts';

const project = join(import.meta.dirname, '..', '..');
const folder = temporaryFolder();
/** Longer than what a history may hold of a value, and found nowhere else. */
const MARKED = `the-marked-value-${'m'.repeat(3000)}`;

/** Steps at once, each in a process of its own. */
const AT_ONCE = 4;

let workflow: Workflow;

beforeAll(async () => {
  const clone = cloneProject(join(folder, 'clone'));
  clone.configure({ dev: { concurrency: AT_ONCE } });
  const out = join(folder, 'out');
  await clone.synth(out, '-c', 'stage=dev');
  const scratch = join(folder, 'scratch');
  mkdirSync(scratch);
  const worker = join(clone.folder, 'dist', 'spawn');
  workflow = await startWorkflow({ out, stack: 'stepspawn-dev', worker, scratch });
}, 180_000);
afterAll(() => workflow?.stop());

async function api(method: string, path: string, body?: JsonObject) {
  const event = {
    httpMethod: method,
    path,
    headers: { 'Content-Type': 'application/json' },
    body: body ? JSON.stringify(body) : null,
    isBase64Encoded: false,
    requestContext: { requestId: 'r' },
  };
  const { payload } = await workflow.invoke('WorkflowRuns', event);
  const answer = payload as { readonly statusCode: number; readonly body: string };
  return { status: Number(answer.statusCode), body: parseJson(answer.body) as JsonObject };
}

async function start(run_id: string, blueprint: JsonValue, ctx: JsonObject = {}): Promise<void> {
  const answer = await api('POST', '/v1/runs', { run_id, blueprint, ctx });
  expect(answer).toEqual({ status: 202, body: { run_id, location: `/v1/runs/${run_id}` } });
}

/** Waits for the newest execution of the run to end: how many there were, how it ended, and the text of all histories. */
async function ended(run_id: string) {
  let text = '';
  for (let n = 1; ; ) {
    const execution = await workflow.describe(`${run_id}-${n}`);
    if (execution === null || execution.status === 'RUNNING') {
      await pause(200);
      continue;
    }
    const history = await workflow.history(`${run_id}-${n}`);
    text += JSON.stringify(history);
    expect(history.length).toBeLessThan(15_000);
    if (!(await workflow.describe(`${run_id}-${n + 1}`))) {
      const { status, error } = execution;
      return { executions: n, outcome: error ? `${status} ${error}` : status, text };
    }
    n++;
  }
}

/** What the API says about a run. */
async function told(run_id: string): Promise<JsonObject> {
  const { status, body } = await api('GET', `/v1/runs/${run_id}`);
  expect(status).toBe(200);
  return body;
}

/** The calls of the worker for a run. */
function steps(run_id: string): readonly Call[] {
  return workflow.calls.filter(
    ({ name, event }) =>
      name.startsWith('FunctionsWorker') && resolvePointer(event, '/step/context/run_id') === run_id,
  );
}

/** How they ended. */
function attempts(run_id: string): (string | null)[] {
  return steps(run_id).map(({ error_type }) => error_type);
}

/** Twelve steps at once that each say in a file which process they are, and then sleep. */
function sleepers(name: string) {
  const file = join(folder, name);
  const blueprint = shellAgents({ a: `echo $$ >> ${file}; exec sleep 120` }, fanout(step('a', 'x', '$.out')));
  const pids = (): string[] => read(file).split('\n').slice(0, -1);
  return { blueprint, pids };
}

const path = (at: string): JsonObject => ({ op: 'path', at });

/** `body` for each of `$.items`, which it finds as `$.item`; the contexts they end with as `$.all`. */
function fanout(body: JsonObject): JsonObject {
  const places = { items: path('$.items'), bind: path('$.item'), out: path('$.all') };
  return { kind: 'fanout', ...places, body, join: 'all' };
}

const range = (length: number): number[] => Array.from({ length }, (_, i) => i);

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

async function secondsUntilGone(pids: readonly string[]): Promise<number> {
  const begun = performance.now();
  while (pids.some(isRunning)) await pause(50);
  return (performance.now() - begun) / 1000;
}

describe('what a run comes to', () => {
  test('sample 11: values travel by key, and the final context is answered', async () => {
    const file = join(project, 'examples', '11-subprocess-embed.json');
    await start('R-sample', readSource(readFileSync(file), file).value, { task: MARKED });
    const { text, ...end } = await ended('R-sample');
    expect(end).toEqual({ executions: 1, outcome: 'SUCCEEDED' });
    expect([text.includes('counter'), text.includes('the-marked-value')]).toEqual([true, false]);
    expect(await told('R-sample')).toMatchObject({
      status: 'done',
      ctx: {
        task: MARKED,
        summary: { prompt_seen: MARKED, system_seen: 'You are a headless one-line summarizer.' },
        characters: MARKED.length,
      },
    });
    expect(attempts('R-sample')).toEqual([null, null]);
  });

  test('a fan-out of 200 is read from the store by a distributed Map', async () => {
    const items = range(200);
    const body = { kind: 'step', ref: 'a', in: path('$.item'), out: path('$.out') };
    await start('R-wide', shellAgents({ a: `echo "$1 ${MARKED}"` }, fanout(body)), { items });
    const { text, ...end } = await ended('R-wide');
    expect(end).toEqual({ executions: 1, outcome: 'SUCCEEDED' });
    // the histories of a distributed Map's own executions are not kept: they would hold these
    const all = text + JSON.stringify(steps('R-wide'));
    expect([all.includes('WideSteps'), all.includes('the-marked-value')]).toEqual([true, false]);
    const { ctx } = (await told('R-wide')) as { ctx: { all: { out: { raw: string } }[] } };
    expect(ctx.all.map(({ out }) => out.raw)).toEqual(items.map((i) => `${i} ${MARKED}`));
    expect(attempts('R-wide')).toEqual(items.map(() => null));
  });

  test('a blocked step fails the run, with its value', async () => {
    await start('R-blocked', shellAgents({ a: 'echo 5; exit 3' }, step('a', 'x', '$.a')));
    expect(await ended('R-blocked')).toMatchObject({ executions: 1, outcome: 'FAILED RunFailed' });
    expect(await told('R-blocked')).toMatchObject({
      status: 'failed',
      error: { failed_step: 'a', verdict_value: 5 },
    });
    expect(attempts('R-blocked')).toEqual([null]);
  });

  test('a program that is missing fails the run at once, without another try', async () => {
    await start('R-missing', oneStep({ argv: ['no-such-program-xyz'] }));
    expect(await ended('R-missing')).toMatchObject({ executions: 1, outcome: 'FAILED RunFailed' });
    expect(await told('R-missing')).toMatchObject({
      status: 'failed',
      error: { message: expect.stringContaining('no-such-program-xyz') },
    });
    expect(attempts('R-missing')).toEqual(['SpawnFailed']);
  });
});

describe('platforms and other holders', () => {
  test.concurrent('a rule for new attempts is followed by the Retry of the state', async () => {
    const once = join(folder, 'asked-again');
    const script = `mkdir ${once} || { echo 9; exit; }; echo '{"code":429}'; exit 1`;
    const retry = { when: { ptr: '/code', equals: 429 }, max_attempts: 3, backoff_secs: 1 };
    await start('R-rule', oneStep({ argv: ['sh', '-c', script], retry }));
    expect(await ended('R-rule')).toMatchObject({ executions: 1, outcome: 'SUCCEEDED' });
    expect(await told('R-rule')).toMatchObject({ status: 'done', ctx: { r: 9 } });
    expect(new Set(attempts('R-rule').slice(0, -1))).toEqual(new Set(['RetryDue']));
    expect(attempts('R-rule').at(-1)).toBeNull();
  }, 120_000);

  test.concurrent('a worker that dies in the middle of an attempt is replaced once its claim has ended', async () => {
    const once = join(folder, 'died');
    const script = `mkdir ${once} && { kill -9 $PPID; exit 1; }; echo 7`;
    await start('R-crash', oneStep({ argv: ['sh', '-c', script], limits: { timeout_secs: 2 } }));
    expect(await ended('R-crash')).toMatchObject({ executions: 1, outcome: 'SUCCEEDED' });
    expect(await told('R-crash')).toMatchObject({ status: 'done', ctx: { r: 7 } });
    const result = await readResult(workflow.store, { task_id: stepTaskId('R-crash', ''), attempt: 1 });
    expect(result?.warnings).toEqual([
      'an earlier holder of this attempt was lost; its child may have run once already',
    ]);
    const [first, ...later] = attempts('R-crash');
    expect([first, later.at(-1), new Set(later.slice(0, -1))]).toEqual([
      'Runtime.ExitError',
      null,
      new Set(['AttemptInProgress']),
    ]);
  }, 120_000);

  test.concurrent('an attempt that another holds is asked for again, and run once it is let go', async () => {
    const gate = join(folder, 'gate');
    const script = `test -d ${gate} || exec sleep 120; echo 8`;
    const blueprint = oneStep({ argv: ['sh', '-c', script] });
    const id = { task_id: stepTaskId('R-held', ''), attempt: 1 };
    const other = new AbortController();
    const { store } = workflow;
    const request = { ...id, agent: 'w', blueprint, in: 'hello', context: { run_id: 'R-held' } };
    const ports = await realPorts(folder, { store, host: null, signal: other.signal });
    const holding = runAttempt(readTask(request, 'required'), ports);
    await expect.poll(() => claimState(store, id)).toBe('held');
    await start('R-held', blueprint);
    await expect.poll(() => attempts('R-held'), { timeout: 30_000 }).toEqual(['AttemptInProgress']);
    mkdirSync(gate);
    other.abort('interrupted');
    await expect(holding).rejects.toMatchObject({ name: 'AttemptInProgress' });
    expect(await ended('R-held')).toMatchObject({ executions: 1, outcome: 'SUCCEEDED' });
    expect(await told('R-held')).toMatchObject({ status: 'done', ctx: { r: 8 } });
    expect(attempts('R-held')).toEqual(['AttemptInProgress', null]);
  }, 120_000);
});

describe('stopping', () => {
  test('a cancelled run ends its children within seconds, those of later steps too, and is cancelled', async () => {
    const { blueprint, pids } = sleepers('cancelled');
    await start('R-cancel', blueprint, { items: range(12) });
    await expect.poll(() => pids().length, { timeout: 20_000 }).toBe(AT_ONCE);
    expect(await api('POST', '/v1/runs/R-cancel/cancel', {})).toMatchObject({ status: 202 });
    expect(await secondsUntilGone(pids())).toBeLessThan(8);
    expect(await ended('R-cancel')).toMatchObject({ executions: 1, outcome: 'FAILED RunCancelled' });
    expect(await told('R-cancel')).toMatchObject({ status: 'cancelled' });
    expect(await secondsUntilGone(pids())).toBeLessThan(0.1);
    expect(attempts('R-cancel')).toEqual(range(12).map(() => null));
  }, 60_000);

  test('a stopped execution ends its children through the marker, and the run is cancelled', async () => {
    const { blueprint, pids } = sleepers('stopped');
    await start('R-stop', blueprint, { items: range(2) });
    await expect.poll(() => pids().length, { timeout: 20_000 }).toBe(2);
    // moto lets the calls that are under way come to their end first
    await workflow.abort('R-stop-1');
    expect([pids().every(isRunning), await told('R-stop')]).toMatchObject([true, { status: 'running' }]);
    const event = {
      source: 'aws.states',
      'detail-type': 'Step Functions Execution Status Change',
      detail: { name: 'R-stop-1', status: 'ABORTED' },
    };
    expect((await workflow.invoke('WorkflowCancelMarker', event)).payload).toEqual({ run_id: 'R-stop' });
    expect(await secondsUntilGone(pids())).toBeLessThan(8);
    expect(await told('R-stop')).toMatchObject({ status: 'cancelled' });
    expect(await ended('R-stop')).toMatchObject({ executions: 1, outcome: 'ABORTED' });
    expect(await told('R-stop')).toMatchObject({ status: 'cancelled' });
  }, 60_000);
});

test('a run whose execution ended without an end of the run goes on when it is started again', async () => {
  const blueprint = shellAgents({ a: 'sleep 1; echo 1' }, step('a', 'x', '$.a'));
  await start('R-again', blueprint);
  await start('R-again', blueprint);
  expect(await workflow.describe('R-again-2')).toBeNull();
  await workflow.abort('R-again-1');
  await expect
    .poll(async () => (await workflow.describe('R-again-1'))?.status, { timeout: 20_000 })
    .toBe('ABORTED');
  await start('R-again', blueprint);
  expect(await ended('R-again')).toMatchObject({ executions: 2, outcome: 'SUCCEEDED' });
  expect(await told('R-again')).toMatchObject({ status: 'done', ctx: { a: 1 } });
  await start('R-again', blueprint);
  expect(await workflow.describe('R-again-3')).toBeNull();
}, 60_000);

test('a long loop is handed over from execution to execution', async () => {
  const rounds = 300;
  const loop = {
    kind: 'loop',
    counter: path('$.n'),
    cond: { op: 'lt', lhs: path('$.n'), rhs: { op: 'lit', value: rounds } },
    body: { kind: 'step', ref: 'a', in: path('$.n'), out: path('$.last') },
    max: 1000,
  };
  await start('R-loop', shellAgents({ a: 'echo $(($1 + 1))' }, loop));
  const { executions, outcome } = await ended('R-loop');
  expect([outcome, executions > 3]).toEqual(['SUCCEEDED', true]);
  expect(await told('R-loop')).toMatchObject({ status: 'done', ctx: { n: rounds, last: rounds } });
  expect(attempts('R-loop')).toEqual(range(rounds).map(() => null));
}, 300_000);

describe('the scenarios of every door', () => {
  test.each(SCENARIOS.map((scenario, i) => [scenario.title, scenario, `R-door-${i}`] as const))(
    '%s',
    async (_title, scenario, run_id) => {
      await start(run_id, scenario.blueprint, scenario.ctx);
      await ended(run_id);
      expectTold((await told(run_id)) as unknown as Told, scenario);
    },
    60_000,
  );
});
