/** The local server as a process: its routes, whom it refuses, how it stops. */
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../lib/json.ts';
import { readCases } from '../support/cases.ts';
import { cli, startCli } from '../support/cli.ts';
import { oneStep, shellAgents, step } from '../support/documents.ts';
import { temporaryFolder } from '../support/ports.ts';
import { isRunning } from '../support/processes.ts';

const folder = temporaryFolder();
const started: ReturnType<typeof startCli>[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('exit', resolve));
    }
  }
});

async function serve(args: string[] = [], dir = mkdtempSync(join(folder, 'serve-'))) {
  const child = startCli(['serve', '--port', '0', ...args], dir, { SCRATCH_DIR: scratchDir() });
  started.push(child);
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const ready = await new Promise<string>((resolve, reject) => {
    child.stdout.once('data', (data) => resolve(String(data)));
    void ended.then(async () => reject(new Error(await text(child.stderr))));
  });
  return { child, dir, ended, url: JSON.parse(ready).url as string };
}

/** A scratch folder that other users may pass through. */
function scratchDir(): string {
  const dir = mkdtempSync(join(folder, 'scratch-'));
  for (const path of [folder, dir]) chmodSync(path, 0o755);
  return dir;
}

async function send(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
) {
  const type: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
  const response = await fetch(url + path, {
    method,
    headers: { ...type, ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as JsonObject };
}

test('the routes, with a folder store that the command line reads too', async () => {
  const { url, dir } = await serve();
  const document = oneStep({ argv: ['cat'], stdin: '{prompt}' });
  expect(await send(url, 'POST', '/v1/validate', { blueprint: document })).toEqual({
    status: 200,
    body: { ok: true, issues: [] },
  });
  const { status, body } = await send(url, 'POST', '/v1/blueprints', { blueprint: document });
  expect(status).toBe(201);
  const task = { task_id: 'T-1', agent: 'w', blueprint: { digest: body.digest }, in: 'hi' };
  expect(await send(url, 'POST', '/v1/spawn', task)).toMatchObject({
    status: 200,
    body: { ok: true, value: { raw: 'hi' }, replayed: false },
  });
  expect(await send(url, 'POST', '/v1/spawn', task)).toMatchObject({ status: 200, body: { replayed: true } });
  expect(await send(url, 'GET', '/v1/tasks/T-1/1')).toMatchObject({
    status: 200,
    body: { value: { raw: 'hi' } },
  });
  expect(await send(url, 'POST', '/v1/runs', { blueprint: document, run_id: 'R-1' })).toEqual({
    status: 202,
    body: { run_id: 'R-1', location: '/v1/runs/R-1' },
  });
  await expect
    .poll(async () => (await send(url, 'GET', '/v1/runs/R-1')).body)
    .toMatchObject({ status: 'done', ctx: { r: { raw: 'hello' } } });
  expect(
    await send(url, 'POST', '/v1/runs', { blueprint: document, run_id: 'R-1', ctx: { other: 1 } }),
  ).toMatchObject({ status: 409 });
  const stored = await cli(['result', 'T-1'], dir);
  expect([stored.code, JSON.parse(stored.stdout).value]).toEqual([0, { raw: 'hi', stderr: '' }]);
});

describe('user cases of the API', () => {
  const cases = readCases('users.jsonl').filter(
    ({ expect: expected }) => (expected as JsonObject).level === 'api',
  );
  if (cases.length === 0) return;
  test.each(cases.map((found) => [`${found.id}: ${found.fault}`, found] as const))(
    '%s',
    async (_title, found) => {
      const { url } = await serve();
      const expected = found.expect as JsonObject;
      const document = oneStep(found.template as JsonObject);
      const task = {
        task_id: 'T-1',
        agent: 'w',
        blueprint: document,
        in: (found.payload as JsonObject).prompt,
      };
      const { status, body } = await send(url, 'POST', '/v1/spawn', task);
      expect(status).toBe(Number(expected.status ?? 200));
      if (expected.ok !== undefined) expect(body).toMatchObject({ ok: expected.ok });
      if (status === 202) {
        expect(body.location).toBe('/v1/tasks/T-1/1');
        await expect
          .poll(async () => (await send(url, 'GET', String(body.location))).status, {
            timeout: 30_000,
            interval: 500,
          })
          .toBe(200);
        expect(await send(url, 'POST', '/v1/spawn', task)).toMatchObject({
          status: 200,
          body: { replayed: true },
        });
      } else {
        expect(JSON.stringify(body).length).toBeLessThan(6_000_000);
        expect('value' in body || 'value_ref' in body).toBe(true);
      }
    },
    90_000,
  );
});

test('refuses pages, strange hosts, other types, large bodies, unknown routes', async () => {
  const { url } = await serve();
  expect(await send(url, 'POST', '/v1/validate', {}, { origin: 'http://evil.example' })).toMatchObject({
    status: 403,
    body: { error: { code: 'Forbidden', request_id: expect.any(String) } },
  });
  const strange = await new Promise<number | undefined>((resolve) => {
    httpRequest(`${url}/v1/runs/R`, { headers: { host: 'evil.example' } }, (response) =>
      resolve(response.resume().statusCode),
    ).end();
  });
  expect(strange).toBe(403);
  expect(
    (await fetch(`${url}/v1/spawn`, { method: 'POST', body: 'x', headers: { 'content-type': 'text/plain' } }))
      .status,
  ).toBe(415);
  expect(await send(url, 'POST', '/v1/validate', { blueprint: 'x'.repeat(5_100_000) })).toMatchObject({
    status: 413,
    body: { error: { message: expect.stringContaining('5000000') } },
  });
  expect(await send(url, 'GET', '/nothing')).toMatchObject({ status: 404 });
  expect(await send(url, 'PUT', '/v1/spawn', {})).toMatchObject({ status: 405 });
});

test('a streaming call is told what goes on, and ends with the result', async () => {
  const { url } = await serve();
  const post = async (body: unknown) => {
    const response = await fetch(`${url}/v1/spawn/stream`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      text: await response.text(),
    };
  };
  const events = (text: string): [string, JsonObject][] =>
    text
      .split('\n\n')
      .filter((block) => block.startsWith('event: '))
      .map((block) => {
        const [, name = '', data = ''] = /^event: (.*)\ndata: (.*)$/.exec(block) ?? [];
        return [name, JSON.parse(data)];
      });
  const plain = shellAgents({ a: 'echo one; sleep 0.3; echo two' }, { kind: 'seq', children: [] });
  const watched = await post({ task_id: 'T-1', agent: 'a', blueprint: plain, in: '' });
  expect([watched.status, watched.type]).toEqual([200, 'text/event-stream']);
  const told = events(watched.text);
  expect(told[0]).toEqual(['accepted', { task_id: 'T-1', attempt: 1, location: '/v1/tasks/T-1/1' }]);
  expect(
    told
      .filter(([name]) => name === 'output')
      .map(([, data]) => data.text)
      .join(''),
  ).toBe('one\ntwo\n');
  expect(told.at(-1)).toMatchObject(['result', { ok: true, value: { raw: 'one\ntwo' } }]);
  const final = '{"type":"final","ok":true,"content":{"kind":"inline","value":1}}';
  const lines = `echo '{"type":"progress","stage":"s"}'; echo '{"type":"partial","chunk":{"kind":"inline","value":"p"}}'; echo '${final}'`;
  const streaming = oneStep({ argv: ['sh', '-c', lines], stream_mode: 'ndjson_lines' });
  const names = events((await post({ agent: 'w', blueprint: streaming, in: '' })).text).map(([name]) => name);
  expect(names).toEqual(['accepted', 'progress', 'partial', 'result']);
  const refused = events(
    (await post({ agent: 'w', blueprint: oneStep({ argv: ['no-such-xyz'] }), in: '' })).text,
  );
  expect(refused.at(-1)).toMatchObject(['error', { error: { code: 'SpawnFailed' } }]);
  expect(await post({ bogus: 1 })).toMatchObject({ status: 400, type: 'application/json' });
});

test('cancelling by route or by command ends the child within seconds', async () => {
  const { url, dir } = await serve();
  const slow = shellAgents({ a: `echo $$ > ${dir}/pid; sleep 60` }, step('a', 'x', '$.a'));
  await send(url, 'POST', '/v1/runs', { blueprint: slow, run_id: 'R-1' });
  await expect.poll(() => existsSync(join(dir, 'pid'))).toBe(true);
  const { code, stdout } = await cli(['cancel', 'R-1'], dir);
  expect([code, stdout]).toEqual([0, '{"run_id":"R-1"}\n']);
  await expect
    .poll(async () => (await send(url, 'GET', '/v1/runs/R-1')).body.status, { timeout: 6000 })
    .toBe('cancelled');
  await expect.poll(() => isRunning(readFileSync(join(dir, 'pid'), 'utf8')), { timeout: 6000 }).toBe(false);
  expect((await cli(['cancel', 'R-unknown'], dir)).code).toBe(2);
});

test('SIGTERM lets what runs finish, and nothing stays behind', async () => {
  const { url, dir, child, ended } = await serve();
  const document = shellAgents({ a: `echo $$ > ${dir}/pid; sleep 1; echo 7` }, { kind: 'seq', children: [] });
  const running = send(url, 'POST', '/v1/spawn', { task_id: 'T-1', agent: 'a', blueprint: document, in: '' });
  await expect.poll(() => existsSync(join(dir, 'pid'))).toBe(true);
  child.kill('SIGTERM');
  expect(await running).toMatchObject({ status: 200, body: { value: 7 } });
  expect(await ended).toBe(0);
});

test('listens beyond loopback only with a token, and then only to those who have it', async () => {
  const dir = mkdtempSync(join(folder, 'token-'));
  const open = await cli(['serve', '--host', '0.0.0.0', '--port', '0'], dir);
  expect([open.code, open.stderr]).toEqual([64, expect.stringContaining('--token-file')]);
  writeFileSync(join(dir, 'short'), 'abc');
  expect((await cli(['serve', '--host', '0.0.0.0', '--token-file', 'short'], dir)).code).toBe(64);
  writeFileSync(join(dir, 'token'), 'a-token-of-some-length\n');
  const { url } = await serve(['--token-file', 'token'], dir);
  expect(await send(url, 'GET', '/v1/runs/R')).toMatchObject({ status: 403 });
  expect(
    await send(url, 'GET', '/v1/runs/R', undefined, { authorization: 'Bearer wrong-token-of-length' }),
  ).toMatchObject({ status: 403 });
  expect(
    await send(url, 'GET', '/v1/runs/R', undefined, { authorization: 'Bearer a-token-of-some-length' }),
  ).toMatchObject({ status: 404 });
});

test('as root, children can run as another user that sees neither the host nor other attempts', async () => {
  const { url, dir } = await serve(['--child-user', '65534:65534']);
  const script =
    'id -u; echo e > /dev/stderr; echo x > "$HOME/f" && echo y > "$TMPDIR/g" && cat "$1" && cat "$MSE_PAYLOAD_FILE" | wc -l; cat /proc/$PPID/environ; ls "$(dirname "$HOME")/.."';
  const document = oneStep(
    { argv: ['sh', '-c', script, 'x', '{system_file}'] },
    {},
    { profile: { system_prompt: 'the-system' } },
  );
  const { body } = await send(url, 'POST', '/v1/spawn', {
    task_id: 'T-1',
    agent: 'w',
    blueprint: document,
    in: '',
  });
  const { raw, stderr } = body.value as { raw: string; stderr: string };
  expect(raw.split('\n').slice(0, 2)).toEqual(['65534', 'the-system0']);
  expect(stderr).toMatch(/environ: Permission denied/);
  expect(stderr).toMatch(/ls: .*Permission denied/);
  expect(readdirSync(dir)).toEqual(['.stepspawn']);
});
