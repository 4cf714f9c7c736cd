/** The bundled handlers, invoked as Lambda does: direct events and REST proxy events, over a real S3 server. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type JsonObject, parseJson } from '../../lib/json.ts';
import { startRun } from '../../lib/start-run.ts';
import { attemptKey } from '../../lib/store/keys.ts';
import type { ObjectStore } from '../../lib/store/object-store.ts';
import { openStore } from '../../lib/store/open.ts';
import type { TaskResult } from '../../lib/task.ts';
import { readCases } from '../support/cases.ts';
import { oneStep, shellAgents, step } from '../support/documents.ts';
import { type LambdaApi, startLambdaApi } from '../support/lambda-api.ts';
import { temporaryFolder } from '../support/ports.ts';
import { startS3 } from '../support/s3-server.ts';

const project = join(import.meta.dirname, '..', '..');
const folder = temporaryFolder();
const SECRET = 'a-secret-of-the-host';

type Handler = (event: unknown, context: unknown) => Promise<unknown>;
interface RestAnswer {
  readonly statusCode: number;
  readonly headers: Record<string, string>;
  readonly body: string;
}

let handlers: Record<'validate' | 'spawn' | 'plan', Handler>;
let store: ObjectStore;
let stop: () => Promise<unknown>;
let made = 0;

beforeAll(async () => {
  execFileSync(process.execPath, ['build.ts'], { cwd: project, stdio: 'ignore' });
  const server = await startS3();
  stop = async () => server.stop();
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_S3: server.url,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: SECRET,
    STORE_URL: 's3://handlers/pre/fix',
    SCRATCH_DIR: mkdtempSync(join(folder, 'scratch-')),
    SECRETS: '{"api":"env:HOST_TOKEN"}',
    HOST_TOKEN: 'token-0123456789',
    POWERTOOLS_DEV: 'false',
  });
  const { CreateBucketCommand, S3Client } = await import('@aws-sdk/client-s3');
  await new S3Client({ forcePathStyle: true }).send(new CreateBucketCommand({ Bucket: 'handlers' }));
  store = openStore('s3://handlers/pre/fix');
  const load = async (name: string): Promise<Handler> => {
    const { handler } = (await import(pathToFileURL(join(project, 'dist', name, 'index.mjs')).href)) as {
      handler: Handler;
    };
    return handler;
  };
  handlers = { validate: await load('validate'), spawn: await load('spawn'), plan: await load('plan') };
}, 120_000);
afterAll(() => stop?.());

function context(remaining = 60_000) {
  const end = Date.now() + remaining;
  return {
    functionName: 'f',
    functionVersion: '1',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:f',
    memoryLimitInMB: '512',
    awsRequestId: `req-${made++}`,
    getRemainingTimeInMillis: () => end - Date.now(),
  };
}

function rest(method: string, path: string, body?: unknown, given: JsonObject = {}): JsonObject {
  const headers: JsonObject = body === undefined ? {} : { 'Content-Type': 'application/json; charset=utf-8' };
  const text = body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body);
  return {
    httpMethod: method,
    path,
    headers,
    body: text,
    isBase64Encoded: false,
    requestContext: { requestId: 'rest-1' },
    ...given,
  };
}

async function call(
  name: keyof typeof handlers,
  event: JsonObject,
): Promise<{ status: number; body: JsonObject }> {
  const { statusCode, body } = (await handlers[name](event, context())) as RestAnswer;
  return { status: statusCode, body: parseJson(body) as JsonObject };
}

function request(template: JsonObject, given: JsonObject = {}): JsonObject {
  return {
    task_id: `T-${process.pid}-${made++}`,
    agent: 'w',
    blueprint: oneStep(template),
    in: 'hello',
    ...given,
  };
}

const cat = { argv: ['cat'], stdin: '{prompt}' };

/** What a handler prints while `run` runs. */
async function printed(run: () => Promise<unknown>): Promise<string> {
  const lines: string[] = [];
  const { log, info, error, warn } = console;
  const write = process.stdout.write.bind(process.stdout);
  const keep = (...words: unknown[]): void => void lines.push(words.join(' '));
  Object.assign(console, { log: keep, info: keep, error: keep, warn: keep });
  process.stdout.write = ((text: string) => lines.push(text) > 0) as typeof process.stdout.write;
  try {
    await run();
  } finally {
    Object.assign(console, { log, info, error, warn });
    process.stdout.write = write;
  }
  return lines.join('\n');
}

describe('validate', () => {
  test('direct and by REST, and registers what is valid', async () => {
    const document = oneStep(cat);
    expect(await handlers.validate({ blueprint: document }, context())).toEqual({ ok: true, issues: [] });
    expect(await call('validate', rest('POST', '/v1/validate', { blueprint: { id: 1 } }))).toMatchObject({
      status: 200,
      body: { ok: false },
    });
    const { status, body } = await call('validate', rest('POST', '/v1/blueprints', { blueprint: document }));
    expect(status).toBe(201);
    const result = await handlers.spawn({ ...request(cat), blueprint: { digest: body.digest! } }, context());
    expect(result).toMatchObject({ status: 'passed', blueprint_digest: body.digest });
    const bad = await call(
      'validate',
      rest('POST', '/v1/blueprints', { blueprint: oneStep({ argv: ['{evil}'] }) }),
    );
    expect(bad).toMatchObject({
      status: 422,
      body: {
        error: { code: 'InvalidBlueprint', request_id: 'rest-1', issues: [{ code: 'unknown_placeholder' }] },
      },
    });
  });

  test('a system prompt that needs the engine is checked in the bundle', async () => {
    const document = oneStep(cat, {}, { profile: { system_prompt: '{{ broken' } });
    expect(await handlers.validate({ blueprint: document }, context())).toMatchObject({
      ok: false,
      issues: [{ code: 'prompt_syntax' }],
    });
    const good = request({ argv: ['printf', '%s', '{system}'] }, {});
    (good.blueprint as JsonObject).agents = [
      {
        ...((good.blueprint as JsonObject).agents as JsonObject[])[0],
        profile: { system_prompt: 'S {{ directive }}' },
      },
    ];
    expect(await handlers.spawn(good, context())).toMatchObject({ value: { raw: 'S hello' } });
  });
});

describe('spawn', () => {
  test('a direct event is answered with the result that lies in the store', async () => {
    const event = request(cat);
    const answer = (await handlers.spawn(event, context())) as TaskResult;
    expect(answer).toMatchObject({ status: 'passed', value: { raw: 'hello', stderr: '' }, replayed: false });
    const stored = await store.read(attemptKey(String(event.task_id), 1, 'result.json'));
    expect(JSON.parse(String(stored?.body))).toEqual(answer);
    expect(await handlers.spawn(event, context())).toEqual({ ...answer, replayed: true });
  });

  test('20 callers of one event start one child', async () => {
    const dir = mkdtempSync(join(folder, 'n-'));
    const event = request({ argv: ['sh', '-c', `mktemp ${dir}/XXXXXX >/dev/null; sleep 0.3; echo 1`] });
    const answers = await Promise.allSettled(
      Array.from({ length: 20 }, () => handlers.spawn(event, context())),
    );
    expect(readdirSync(dir)).toHaveLength(1);
    for (const answer of answers) {
      if (answer.status === 'rejected') expect(answer.reason.name).toBe('AttemptInProgress');
      else expect(answer.value).toMatchObject({ value: 1 });
    }
  });

  test('what is thrown has its code as name, for Step Functions', async () => {
    const refusals: [JsonObject, string][] = [
      [request({ argv: ['no-such-program-xyz'] }), 'SpawnFailed'],
      [request({ argv: ['{model}'] }), 'PlaceholderUnset'],
      [{ ...request(cat), agent: 'nobody' }, 'InvalidTask'],
      [{ ...request(cat), bogus: 1 }, 'InvalidTask'],
      [{ ...request(cat), $file: 'a' }, 'InvalidTask'],
      [{ ...request(cat), blueprint: { digest: `sha256:${'0'.repeat(64)}` } }, 'NotFound'],
      [{}, 'InvalidTask'],
    ];
    for (const [event, name] of refusals)
      await expect(handlers.spawn(event, context())).rejects.toMatchObject({ name });
    await expect(handlers.spawn('text', context())).rejects.toMatchObject({ name: 'InvalidTask' });
  });

  test('REST: 200 for a result, passed or not; base64 bodies; a made task id', async () => {
    const passed = await call('spawn', rest('POST', '/v1/spawn', request(cat)));
    expect(passed).toMatchObject({ status: 200, body: { ok: true, value: { raw: 'hello' } } });
    const failed = await call('spawn', rest('POST', '/v1/spawn', request({ argv: ['false'] })));
    expect(failed).toMatchObject({ status: 200, body: { ok: false, reason: 'exit_nonzero' } });
    const { task_id: _, ...anonymous } = request(cat);
    const body = Buffer.from(JSON.stringify(anonymous)).toString('base64');
    const encoded = await call('spawn', rest('POST', '/v1/spawn', body, { isBase64Encoded: true }));
    expect(encoded).toMatchObject({
      status: 200,
      body: { task_id: expect.stringMatching(/^T-[0-9a-f]{32}$/) },
    });
  });

  test.each([
    [
      'no body',
      rest('POST', '/v1/spawn', undefined, { headers: { 'content-type': 'application/json' } }),
      400,
      'InvalidTask',
    ],
    ['a body that is not JSON', rest('POST', '/v1/spawn', '{'), 400, 'InvalidTask'],
    ['a body that is a list', rest('POST', '/v1/spawn', []), 400, 'InvalidTask'],
    [
      'a body that is a reference',
      rest('POST', '/v1/spawn', { ...request(cat), $file: 'a' }),
      400,
      'InvalidTask',
    ],
    [
      'another content type',
      rest('POST', '/v1/spawn', {}, { headers: { 'content-type': 'text/plain' } }),
      415,
      'UnsupportedMediaType',
    ],
    ['no content type', rest('POST', '/v1/spawn', {}, { headers: null }), 415, 'UnsupportedMediaType'],
    [
      'a body over the limit',
      rest('POST', '/v1/spawn', `"${'x'.repeat(5_000_001)}"`),
      413,
      'RequestTooLarge',
    ],
    ['another method', rest('DELETE', '/v1/spawn'), 405, 'MethodNotAllowed'],
    ['GET where POST is meant', rest('GET', '/v1/spawn'), 405, 'MethodNotAllowed'],
    ['another path', rest('POST', '/v1/nothing', {}), 404, 'NotFound'],
    ['a path too many', rest('GET', '/v1/tasks/T-1/1/x'), 404, 'NotFound'],
    ['an unknown task', rest('GET', '/v1/tasks/T-unknown/1'), 404, 'NotFound'],
    ['a bad attempt number', rest('GET', '/v1/tasks/T-1/zero'), 400, 'InvalidTask'],
    ['a bad task id', rest('GET', '/v1/tasks/..%2Fx/1'), 400, 'InvalidTask'],
  ])('REST: %s', async (_what, event, status, code) => {
    const answer = await call('spawn', event as JsonObject);
    expect(answer).toMatchObject({
      status,
      body: { error: { code, message: expect.any(String), request_id: 'rest-1' } },
    });
  });

  test('a result is answered by its id, 202 while it is running', async () => {
    const event = request({ argv: ['sh', '-c', 'sleep 1; echo 5'] });
    const running = handlers.spawn(event, context());
    await expect.poll(() => store.read(attemptKey(String(event.task_id), 1, 'claim.json'))).not.toBeNull();
    const path = `/v1/tasks/${event.task_id}/1`;
    expect(await call('spawn', rest('GET', path))).toMatchObject({ status: 202, body: { location: path } });
    await running;
    expect(await call('spawn', rest('GET', path))).toMatchObject({ status: 200, body: { value: 5 } });
  });

  test('cancelling ends the child and stays', async () => {
    const event = request({ argv: ['sleep', '60'] });
    const running = handlers.spawn(event, context());
    await expect.poll(() => store.read(attemptKey(String(event.task_id), 1, 'claim.json'))).not.toBeNull();
    expect(await call('spawn', rest('POST', `/v1/tasks/${event.task_id}/1/cancel`, {}))).toMatchObject({
      status: 202,
    });
    expect(await running).toMatchObject({ ok: false, reason: 'cancelled' });
  });

  test('the deadline of the invocation leaves time to store the result', async () => {
    const event = request({ argv: ['sh', '-c', 'printf "so far"; sleep 300'] });
    const begun = Date.now();
    const answer = (await handlers.spawn(event, context(4000))) as TaskResult;
    expect(answer).toMatchObject({ ok: false, reason: 'timed_out', value: { raw: 'so far' } });
    expect(Date.now() - begun).toBeLessThan(4000);
  });

  test('values by size: inline, by reference for a direct event, inline again by REST', async () => {
    const print = (size: number) => ({
      argv: ['sh', '-c', `printf '"'; head -c ${size} /dev/zero | tr "\\0" x; printf '"'`],
    });
    for (const [size, direct, byRest] of [
      [100, 'value', 'value'],
      [197_000, 'value_ref', 'value'],
      [400_000, 'value_ref', 'value'],
      [6_000_000, 'value_ref', 'value_ref'],
    ] as const) {
      const event = request(print(size));
      const answer = (await handlers.spawn(event, context())) as TaskResult;
      expect([size, direct in answer, Buffer.byteLength(JSON.stringify(answer)) < 200_000]).toEqual([
        size,
        true,
        true,
      ]);
      const { body } = await call('spawn', rest('GET', `/v1/tasks/${event.task_id}/1`));
      expect([size, byRest in body]).toEqual([size, true]);
      const whole = answer.value_ref
        ? String((await store.read(answer.value_ref.key))?.body)
        : JSON.stringify(answer.value);
      expect(whole.length).toBe(size + 2);
    }
  });

  test('sees nothing of the host, but the secrets that the operator mapped', async () => {
    const template = {
      argv: [
        'sh',
        '-c',
        'env | grep -cE "^(AWS_|STORE_URL|SECRETS|HOST_TOKEN)"; test "$T" = token-0123456789 && echo yes',
      ],
      secrets: { T: 'api' },
    };
    expect(await handlers.spawn(request(template), context())).toMatchObject({ value: { raw: '0\nyes' } });
  });

  test('every log line carries the ids of its own call, and neither payloads nor secrets', async () => {
    const first = request({ ...cat, secrets: { T: 'api' } }, { in: 'the-payload' });
    const second = request(cat, { context: { run_id: 'R-9' } });
    await printed(() => handlers.spawn(first, context()));
    const text = await printed(() => handlers.spawn(second, context()));
    const lines = text
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line));
    const logs = lines.filter((line) => line.level !== undefined);
    expect(logs.length).toBeGreaterThan(0);
    for (const line of logs)
      expect(line).toMatchObject({
        task_id: second.task_id,
        attempt: 1,
        run_id: 'R-9',
        function_request_id: expect.any(String),
      });
    const metrics = lines.find((line) => line._aws !== undefined);
    expect(metrics).toMatchObject({
      Attempts: 1,
      status: 'passed',
      reason: 'none',
      Duration: expect.any(Number),
      ChildDuration: expect.any(Number),
      OutputBytes: 5,
    });
    const secret = await printed(() => handlers.spawn({ ...first, task_id: 'T-logs' }, context()));
    expect(secret).not.toMatch(/the-payload|token-0123456789/);
    expect(secret).not.toContain(SECRET);
  });

  test('user cases about logs: each line is under its own call', async () => {
    const cases = readCases('users.jsonl').filter(({ tags }) => Array.isArray(tags) && tags.includes('logs'));
    for (const { template, payload } of cases) {
      for (let time = 0; time < 2; time++) {
        const event = request(template as JsonObject, { in: (payload as JsonObject).prompt ?? '' });
        const text = await printed(async () =>
          expect(await handlers.spawn(event, context())).toMatchObject({ ok: true }),
        );
        const logs = text
          .split('\n')
          .filter((line) => line.startsWith('{'))
          .map((line) => JSON.parse(line))
          .filter((line) => line.level);
        expect(logs.length).toBeGreaterThan(0);
        expect(new Set(logs.map((line) => `${line.task_id}/${line.attempt}`))).toEqual(
          new Set([`${event.task_id}/1`]),
        );
      }
    }
  });

  test('after many calls the scratch holds nothing', () => {
    const [own = ''] = readdirSync(process.env.SCRATCH_DIR ?? '');
    const left = readdirSync(join(process.env.SCRATCH_DIR ?? '', own)).filter(
      (name) => !/^(fifos|untouched)/.test(name),
    );
    expect([left, existsSync(join(project, 'dist/spawn/index.mjs.map'))]).toEqual([[], true]);
  });
});

describe('the front hands attempts over to the worker', () => {
  let front: Handler;
  let api: LambdaApi;
  beforeAll(async () => {
    api = await startLambdaApi((event) => handlers.spawn(event, context()));
    Object.assign(process.env, { SPAWN_FUNCTION: 'the-worker', AWS_ENDPOINT_URL_LAMBDA: api.url });
    front = (
      (await import(`${pathToFileURL(join(project, 'dist/spawn/index.mjs')).href}?front`)) as {
        handler: Handler;
      }
    ).handler;
  });
  afterAll(async () => {
    delete process.env.SPAWN_FUNCTION;
    await api?.stop();
  });
  const post = async (body: JsonObject): Promise<{ status: number; body: JsonObject }> => {
    const answer = (await front(rest('POST', '/v1/spawn', body), context())) as RestAnswer;
    return { status: answer.statusCode, body: parseJson(answer.body) as JsonObject };
  };

  test('by key, and answers with the result; the same request again starts nothing', async () => {
    const event = request(cat);
    expect(await post(event)).toMatchObject({ status: 200, body: { ok: true, value: { raw: 'hello' } } });
    expect(api.invocations.at(-1)).toEqual({
      name: 'the-worker',
      event: { request_key: attemptKey(String(event.task_id), 1, 'request.json') },
    });
    const count = api.invocations.length;
    expect(await post(event)).toMatchObject({ status: 200, body: { value: { raw: 'hello' } } });
    expect(api.invocations).toHaveLength(count);
    expect(await post({ ...event, in: 'other' })).toMatchObject({
      status: 409,
      body: { error: { code: 'AttemptConflict' } },
    });
  });

  test('refuses at once what cannot run, and tells what the worker could not start', async () => {
    const count = api.invocations.length;
    expect(await post(request({ argv: ['{evil}'] }))).toMatchObject({
      status: 422,
      body: { error: { code: 'InvalidBlueprint' } },
    });
    expect(await post({ ...request(cat), agent: 'nobody' })).toMatchObject({ status: 400 });
    expect(api.invocations).toHaveLength(count);
    expect(await post(request({ argv: ['no-such-program-xyz'] }))).toMatchObject({
      status: 422,
      body: { error: { code: 'SpawnFailed' } },
    });
  });

  test('answers 202 with where the result will be when it takes longer than a caller can wait', async () => {
    const event = request({ argv: ['sh', '-c', 'sleep 27; echo 9'] });
    const answer = await post(event);
    const location = `/v1/tasks/${event.task_id}/1`;
    expect(answer).toEqual({ status: 202, body: { task_id: event.task_id, attempt: 1, location } });
    expect(await post(event)).toMatchObject({ status: 200, body: { value: 9 } });
    expect(await call('spawn', rest('GET', location))).toMatchObject({ status: 200, body: { value: 9 } });
  }, 70_000);
});

describe('plan', () => {
  /** Drives a run as a state machine would: plan, spawn every step, plan again. */
  async function drive(run_id: string): Promise<{ status: string; hops: number; dispatched: number }> {
    let dispatched = 0;
    for (let hops = 1; ; hops++) {
      const hop = (await handlers.plan({ run_id }, context())) as { status: string; steps?: JsonObject[] };
      if (hop.status !== 'dispatch') return { status: hop.status, hops, dispatched };
      dispatched += hop.steps?.length ?? 0;
      await Promise.allSettled((hop.steps ?? []).map((step) => handlers.spawn({ step }, context())));
    }
  }

  async function start(run_id: string, blueprint: JsonObject, ctx: JsonObject = {}): Promise<void> {
    await startRun({ run_id, blueprint, ctx }, store);
  }

  test('a run hop by hop: values by key, the final context in the store', async () => {
    const flow = {
      kind: 'seq',
      children: [
        step('a', 'x', '$.a'),
        { kind: 'step', ref: 'b', in: { op: 'path', at: '$.a' }, out: { op: 'path', at: '$.b' } },
      ],
    };
    await start('R-plan', shellAgents({ a: 'echo \'{"n":1.0}\'', b: 'printf %s "$1"' }, flow), { k: 1 });
    expect(await call('plan', rest('GET', '/v1/runs/R-plan'))).toMatchObject({
      status: 200,
      body: { status: 'running' },
    });
    expect(await drive('R-plan')).toEqual({ status: 'done', hops: 3, dispatched: 2 });
    expect(await drive('R-plan')).toEqual({ status: 'done', hops: 1, dispatched: 0 });
    const { body } = (await handlers.plan(rest('GET', '/v1/runs/R-plan'), context())) as RestAnswer;
    expect(body).toBe('{"run_id":"R-plan","status":"done","ctx":{"k":1,"a":{"n":1.0},"b":{"n":1.0}}}');
  });

  test('a rule for new attempts: RetryDue until it is due, then the same event runs the next one', async () => {
    const once = join(folder, 'retried');
    const script = `mkdir ${once} || { echo '{"r":1}'; exit; }; echo '{"code":429,"u":{"input":3,"output":4}}'; exit 1`;
    const blueprint = oneStep({
      argv: ['sh', '-c', script],
      output: { stats: { usage_ptr: '/u' } },
      retry: { when: { ptr: '/code', equals: 429 }, max_attempts: 2, backoff_secs: 1.5 },
    });
    await start('R-rule', blueprint);
    const hop = (await handlers.plan({ run_id: 'R-rule' }, context())) as { steps: JsonObject[] };
    const send = (): Promise<unknown> => handlers.spawn({ step: hop.steps[0] }, context());
    await expect(send()).rejects.toMatchObject({
      name: 'RetryDue',
      message: expect.stringMatching(
        /^attempt 1 of task ST-\w+ is not ok \(exit_nonzero\); attempt 2 may start at 2/,
      ),
    });
    await expect(send()).rejects.toMatchObject({ name: 'RetryDue' });
    expect(await handlers.plan({ run_id: 'R-rule' }, context())).toEqual(hop);
    await expect
      .poll(() => send().catch(({ name }) => name), { timeout: 20_000 })
      .toMatchObject({
        attempt: 2,
        status: 'passed',
      });
    expect(await drive('R-rule')).toEqual({ status: 'done', hops: 1, dispatched: 0 });
    expect(await call('plan', rest('GET', '/v1/runs/R-rule'))).toMatchObject({
      body: {
        ctx: { r: { r: 1 } },
        totals: { usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } },
      },
    });
    const alone = {
      ...request({ argv: ['sh', '-c', 'exit 7'], retry: { when: { exit_codes: [7] }, max_attempts: 2 } }),
    };
    expect(await handlers.spawn(alone, context())).toMatchObject({ ok: false, retry: { attempt: 2 } });
    const following = { ...alone, follow_retries: true };
    await expect
      .poll(() => handlers.spawn(following, context()).catch(({ name }) => name), { timeout: 20_000 })
      .toMatchObject({
        attempt: 2,
        ok: false,
      });
  });

  test('a step of a run whose time is over is not started', async () => {
    await startRun({ run_id: 'R-over', blueprint: oneStep({ argv: ['true'] }), ttl_secs: 0.001 }, store);
    const step = {
      task_id: 'ST-over',
      attempt: 1,
      agent: 'w',
      blueprint: oneStep({ argv: ['true'] }),
      in: 'x',
    };
    const expires_at = new Date(Date.now() - 1).toISOString();
    expect(await handlers.spawn({ step: { ...step, expires_at } }, context())).toMatchObject({
      status: 'expired',
    });
    expect(await store.read(attemptKey('ST-over', 1, 'claim.json'))).toBeNull();
  });

  test('a fan-out is one hop; a blocked step and one that cannot start end the run and are named', async () => {
    const fanout = {
      kind: 'fanout',
      items: { op: 'lit', value: [1, 2, 3, 4] },
      bind: { op: 'path', at: '$.i' },
      body: { kind: 'step', ref: 'a', in: { op: 'path', at: '$.i' }, out: { op: 'path', at: '$.r' } },
      join: 'all',
      out: { op: 'path', at: '$.all' },
    };
    await start('R-fan', shellAgents({ a: 'echo "$1"' }, fanout));
    expect(await drive('R-fan')).toEqual({ status: 'done', hops: 2, dispatched: 4 });
    await start('R-blocked', shellAgents({ a: 'exit 3' }, step('a', 'x', '$.a')));
    expect(await drive('R-blocked')).toMatchObject({ status: 'failed' });
    const unstartable = oneStep({ argv: ['no-such-program-xyz'] });
    await start('R-unstartable', unstartable);
    expect(await drive('R-unstartable')).toMatchObject({ status: 'failed' });
    for (const run of ['R-blocked', 'R-unstartable'])
      expect(await call('plan', rest('GET', `/v1/runs/${run}`))).toMatchObject({
        body: { status: 'failed', error: { failed_step: expect.any(String) } },
      });
  });

  test('where inline Blueprints are turned off only registered ones run, alone and in runs', async () => {
    Object.assign(process.env, { INLINE_BLUEPRINTS: 'false', KEEPS_RUNNING: 'true' });
    const load = async (name: string): Promise<Handler> =>
      (
        (await import(`${pathToFileURL(join(project, 'dist', name, 'index.mjs')).href}?prod`)) as {
          handler: Handler;
        }
      ).handler;
    const [spawn, plan] = [await load('spawn'), await load('plan')];
    await expect(spawn(request(cat), context())).rejects.toMatchObject({
      name: 'InvalidTask',
      message: expect.stringContaining('inline'),
    });
    const answer = (await plan(
      rest('POST', '/v1/runs', { blueprint: oneStep(cat) }),
      context(),
    )) as RestAnswer;
    for (const name of ['INLINE_BLUEPRINTS', 'KEEPS_RUNNING']) delete process.env[name];
    expect([answer.statusCode, JSON.parse(answer.body).error.code]).toEqual([400, 'InvalidTask']);
    const { body } = await call('validate', rest('POST', '/v1/blueprints', { blueprint: oneStep(cat) }));
    expect(await spawn({ ...request(cat), blueprint: { digest: body.digest! } }, context())).toMatchObject({
      ok: true,
    });
  });

  test('a cancelled run, an unknown run', async () => {
    await start('R-cancel', oneStep(cat));
    expect(await call('plan', rest('POST', '/v1/runs/R-cancel/cancel', {}))).toMatchObject({ status: 202 });
    expect(await drive('R-cancel')).toMatchObject({ status: 'cancelled', dispatched: 0 });
    expect(await call('plan', rest('GET', '/v1/runs/R-none'))).toMatchObject({ status: 404 });
    await expect(handlers.plan({ run_id: 'R-none' }, context())).rejects.toMatchObject({ name: 'NotFound' });
  });
});
