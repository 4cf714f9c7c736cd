import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { S3 } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { runAttempt } from '../../lib/attempt.ts';
import type { ObjectStore } from '../../lib/store/object-store.ts';
import { openStore } from '../../lib/store/open.ts';
import { type ClaimRequest, claimAttempt, storeResult } from '../../lib/store/result-store.ts';
import { s3Store } from '../../lib/store/s3.ts';
import { cli } from '../support/cli.ts';
import { oneStep } from '../support/documents.ts';
import { type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { realPorts, temporaryFolder } from '../support/ports.ts';
import { type S3Server, startS3 } from '../support/s3-server.ts';
import { sampleResult, storeContract } from './contract.ts';

const folder = temporaryFolder();
const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
const region = 'us-east-1';
const MIB = 1024 * 1024;
/** short enough to wait for, long enough for a busy machine */
const STALL_MS = 500;

let server: S3Server;
let proxy: FaultProxy;
let admin: S3;

beforeAll(async () => {
  server = await startS3();
  proxy = await startFaultProxy(server.port);
  admin = new S3({ endpoint: server.url, region, credentials });
  await admin.createBucket({ Bucket: 'bucket' });
});
afterAll(async () => {
  await proxy?.stop();
  await server?.stop();
});
afterEach(() => void proxy.take());

let opened = 0;

/** A store that no other test uses; its requests go through the proxy. */
function fresh(given: { bucket?: string; stall_ms?: number } = {}): ObjectStore {
  const { bucket = 'bucket', stall_ms } = given;
  const url = `s3://${bucket}/store-${++opened}`;
  return s3Store(url, { endpoint: proxy.url, region, credentials, stall_ms });
}

/** The environment in which a child process finds the server. */
function environment(endpoint = server.url): Record<string, string> {
  const { accessKeyId, secretAccessKey } = credentials;
  return {
    AWS_ENDPOINT_URL_S3: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: accessKeyId,
    AWS_SECRET_ACCESS_KEY: secretAccessKey,
  };
}

function claimOf(task_id: string): ClaimRequest {
  const times = { now: 1000, deadline: 5000 };
  return {
    task_id,
    attempt: 1,
    holder: 'h',
    request_digest: 'sha256:a',
    ...times,
    host: null,
    isAlive: () => true,
  };
}

function pattern(bytes: number): Buffer {
  return Buffer.alloc(bytes, 'stepspawn\n');
}

async function* inChunks(content: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let from = 0; from < content.length; from += size) yield content.subarray(from, from + size);
}

async function sha256Of(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

describe('the store in S3', () => {
  storeContract(async () => fresh(), folder);

  test('is opened by its URL, and says which URLs it does not take', () => {
    expect(openStore('s3://bucket').url).toBe('s3://bucket');
    expect(openStore('s3://bucket/a/b/').url).toBe('s3://bucket/a/b');
    for (const wrong of [
      's3://',
      's3://b',
      's3://UPPER/x',
      's3://bucket/a//b',
      's3://bucket/../x',
      's3://bucket/p?q=1',
    ])
      expect(() => openStore(wrong)).toThrow(/is not supported; use s3:\/\/bucket\/prefix/);
  });

  test('keeps to its prefix', async () => {
    const store = fresh();
    await store.create('a/k', '1');
    const { Contents } = await admin.listObjectsV2({ Bucket: 'bucket', Prefix: `store-${opened}` });
    expect(Contents?.map(({ Key }) => Key)).toEqual([`store-${opened}/a/k`]);
    for (const key of ['../x', 'a/../../x', '/x', 'a//b', './x'])
      await expect(store.create(key, 'y')).rejects.toMatchObject({ code: 'StoreUnavailable' });
  });

  test('lists more keys than one answer holds, in byte order', async () => {
    const store = fresh();
    const keys = Array.from({ length: 1100 }, (_, i) => `t/${String(i).padStart(4, '0')}`);
    keys.push('t/é', 't/\u{1F600}', 't/\uFF5E');
    for (let from = 0; from < keys.length; from += 50)
      await Promise.all(keys.slice(from, from + 50).map((key) => store.create(key, key)));
    proxy.take();
    expect(await store.list('t/')).toEqual([...keys.slice(0, 1101), 't/\uFF5E', 't/\u{1F600}']);
    expect(proxy.take()).toHaveLength(2);
  });

  test('a passed attempt costs two requests', async () => {
    const store = fresh();
    await claimAttempt(store, claimOf('two'));
    await storeResult(store, sampleResult('two', 'v'));
    expect(proxy.take()).toHaveLength(2);

    const ports = await realPorts(folder, { store, cancel_poll: { first_ms: 60_000, then_ms: 60_000 } });
    const blueprint = oneStep({ argv: ['printf', '5'] });
    const result = await runAttempt({ task_id: 'T', attempt: 1, agent: 'w', blueprint, in: 'x' }, ports);
    expect(result).toMatchObject({ status: 'passed', value: 5 });
    expect(proxy.take()).toEqual([
      expect.stringMatching(/^PUT .*\/tasks\/T\/1\/claim\.json/),
      expect.stringMatching(/^PUT .*\/tasks\/T\/1\/result\.json/),
    ]);
  });

  test('reading and replacing cost one request each', async () => {
    const store = fresh();
    await store.create('k', '1');
    proxy.take();
    const found = await store.read('k');
    expect(proxy.take()).toHaveLength(1);
    await store.replace('k', '2', found!.version);
    expect(proxy.take()).toHaveLength(1);
    expect(await store.replace('none', '2', found!.version)).toBe(false);
  });

  test('the terminal finds it through the AWS_* variables', async () => {
    const file = join(folder, 'blueprint.json');
    writeFileSync(file, JSON.stringify(oneStep({ argv: ['printf', '"{prompt}"'] })));
    const url = `s3://bucket/store-${++opened}`;
    const args = ['spawn', file, '--agent', 'w', '--prompt', 'hi', '--task-id', 'T', '--store', url];
    const env = environment(`http://localhost:${server.port}`);
    const first = await cli(args, folder, env);
    const second = await cli(args, folder, env);
    expect([first.code, second.code], first.stderr + second.stderr).toEqual([0, 0]);
    expect(JSON.parse(first.stdout)).toMatchObject({ value: 'hi', replayed: false });
    expect(JSON.parse(second.stdout)).toEqual({ ...JSON.parse(first.stdout), replayed: true });
  });
});

describe('an upload to S3', () => {
  test.each([
    ['nothing', 0, 1],
    ['a part exactly', 8 * MIB, 1],
    ['one byte more', 8 * MIB + 1, 4],
    ['several parts', 27 * MIB + 5, 6],
  ])('of %s comes back as it was', async (_, bytes, requests) => {
    const store = fresh();
    const content = pattern(bytes);
    await store.upload('k', () => inChunks(content, 100_003));
    expect(proxy.take()).toHaveLength(requests);
    expect(await sha256Of((await store.open('k'))!)).toBe(await sha256Of(inChunks(content, MIB)));
  });

  test('of 200 MiB needs little memory', async () => {
    const url = `s3://bucket/store-${++opened}`;
    const script = join(import.meta.dirname, '../fixtures/upload-to-s3.ts');
    const child = spawn(process.execPath, [script, url, String(200 * MIB)], {
      env: environment(`http://localhost:${server.port}`),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const printed: unknown = JSON.parse(await text(child.stdout));
    expect(printed).toEqual({ grown_bytes: expect.toSatisfy((bytes: number) => bytes < 100 * MIB) });
    const head = await admin.headObject({ Bucket: 'bucket', Key: `store-${opened}/large` });
    expect(head.ContentLength).toBe(200 * MIB);
  });

  test('sends a lost part again from memory', async () => {
    const store = fresh();
    const content = pattern(20 * MIB);
    proxy.inject('pass', 'reset', 'lose-answer', { status: 503, code: 'SlowDown' });
    let asked = 0;
    await store.upload('k', () => {
      asked++;
      return inChunks(content, MIB);
    });
    expect(asked).toBe(1);
    expect(await sha256Of((await store.open('k'))!)).toBe(await sha256Of(inChunks(content, MIB)));
  });

  test('is whole also when its end fails and then the answer to it is lost', async () => {
    const store = fresh();
    const content = pattern(9 * MIB);
    proxy.inject('pass', 'pass', 'pass', { status: 200, code: 'InternalError' }, 'lose-answer');
    await store.upload('k', () => inChunks(content, MIB));
    expect(await sha256Of((await store.open('k'))!)).toBe(await sha256Of(inChunks(content, MIB)));
  });

  test('that fails leaves no parts behind', async () => {
    const store = fresh();
    const content = pattern(40 * MIB);
    proxy.inject('pass', 'pass', { status: 403, code: 'AccessDenied' });
    await expect(store.upload('k', () => inChunks(content, MIB))).rejects.toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringContaining(`s3://bucket/store-${opened}/k cannot be uploaded: AccessDenied`),
    });
    const broken = async function* (): AsyncGenerator<Uint8Array> {
      yield content;
      throw new Error('the disk is gone');
    };
    await expect(store.upload('k', broken)).rejects.toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringContaining('the disk is gone'),
    });
    expect(await store.read('k')).toBeNull();
    expect((await admin.listMultipartUploads({ Bucket: 'bucket' })).Uploads ?? []).toEqual([]);
  });
});

describe('when S3 fails', () => {
  test.each([
    [
      'throttling',
      [
        { status: 503, code: 'SlowDown' },
        { status: 429, code: 'TooManyRequests' },
      ],
    ],
    [
      'errors of the server',
      [
        { status: 500, code: 'InternalError' },
        { status: 502, code: 'BadGateway' },
      ],
    ],
    ['resets', ['reset', 'reset', 'reset']],
    ['a stall', ['stall']],
    [
      'conflicts',
      [
        { status: 409, code: 'ConditionalRequestConflict' },
        { status: 409, code: 'ConditionalRequestConflict' },
      ],
    ],
  ] as const)('waits out %s', async (_, faults) => {
    const store = fresh({ stall_ms: STALL_MS });
    proxy.inject(...faults);
    expect(await store.create('k', '1')).toBe(true);
    const seen = proxy.take();
    expect(seen).toHaveLength(faults.length + 1);
    proxy.inject(...faults.filter((fault) => typeof fault === 'string' || fault.status !== 409));
    const found = await store.read('k');
    expect(found?.body.toString()).toBe('1');
    proxy.take();
    proxy.inject(...faults);
    expect(await store.replace('k', '2', found!.version)).toBe(true);
  });

  test('a body that breaks off or stalls is read again', async () => {
    const store = fresh({ stall_ms: STALL_MS });
    const content = pattern(MIB);
    await store.create('k', content);
    for (const fault of ['cut-body', 'stall-body'] as const) {
      proxy.inject(fault);
      expect((await store.read('k'))?.body.equals(content)).toBe(true);
    }
    proxy.inject('cut-body', 'cut-body', 'cut-body');
    await expect(store.read('k')).rejects.toMatchObject({ code: 'StoreUnavailable' });
  });

  test('a stream ends in our error when its body breaks off or stalls, not when its reader is slow', async () => {
    const store = fresh({ stall_ms: STALL_MS });
    const content = pattern(4 * MIB);
    await store.create('k', content);
    for (const fault of ['cut-body', 'stall-body'] as const) {
      proxy.inject(fault);
      await expect(sha256Of((await store.open('k'))!)).rejects.toMatchObject({
        code: 'StoreUnavailable',
        message: expect.stringContaining(`s3://bucket/store-${opened}/k cannot be read`),
      });
    }
    const slow = async function* (): AsyncGenerator<Uint8Array> {
      let waits = 2;
      for await (const chunk of (await store.open('k'))!) {
        if (waits-- > 0) await pause(2 * STALL_MS);
        yield chunk;
      }
    };
    expect(await sha256Of(slow())).toBe(await sha256Of(inChunks(content, MIB)));
    (await store.open('k'))!.destroy();
  });

  test('a create whose answer was lost reports false and finds its own body', async () => {
    const store = fresh();
    proxy.inject('lose-answer');
    expect(await store.create('k', 'mine')).toBe(false);
    expect((await store.read('k'))?.body.toString()).toBe('mine');
  });

  test('a claim and a result whose answers were lost are still ours', async () => {
    const store = fresh();
    proxy.inject('lose-answer');
    const claim = await claimAttempt(store, claimOf('lost'));
    expect(claim).toMatchObject({ kind: 'held', held: { takenOver: null } });
    proxy.inject('lose-answer');
    const result = sampleResult('lost', 'v');
    expect(await storeResult(store, result)).toEqual(result);
  });

  test('a server that stalls for good is given up in bounded time', async () => {
    const store = fresh({ stall_ms: STALL_MS });
    proxy.inject('stall', 'stall', 'stall', 'stall', 'stall');
    const before = performance.now();
    await expect(store.create('k', '1')).rejects.toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringMatching(/k cannot be created: TimeoutError: .*500 ms.*; check the network/),
    });
    expect(performance.now() - before).toBeLessThan(5 * STALL_MS + 3000);
    expect(proxy.take()).toHaveLength(5);
  });

  test.each([
    [403, 'AccessDenied', 'the credentials need s3:GetObject, and s3:ListBucket, without which'],
    [403, 'RequestTimeTooSkewed', 'set the clock of this machine'],
    [403, 'InvalidAccessKeyId', 'check the credentials'],
    [403, 'SignatureDoesNotMatch', 'check the credentials'],
    [400, 'ExpiredToken', 'check the credentials'],
    [301, 'PermanentRedirect', 'set AWS_REGION'],
    [404, 'NoSuchBucket', 'make the bucket, or correct the store URL'],
    [501, 'NotImplemented', 'must support conditional writes'],
    [418, 'Teapot', ''],
  ])('%i %s is told with the object, the cause and what to do', async (status, code, advice) => {
    const store = fresh();
    proxy.inject({ status, code });
    const error: unknown = await store.read('k').catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: 'StoreUnavailable', cause: { name: code } });
    const { message } = error as Error;
    expect(message).toBe(message.replaceAll('\n', ' '));
    expect(message.startsWith(`s3://bucket/store-${opened}/k cannot be read: ${code} was injected`)).toBe(
      true,
    );
    expect(message).toContain(advice);
  });

  test('overload and conflicts that do not end are told as such', async () => {
    const store = fresh();
    const conflict = { status: 409, code: 'ConditionalRequestConflict' } as const;
    proxy.inject(conflict, conflict, conflict, conflict, conflict, conflict);
    await expect(store.create('k', '1')).rejects.toMatchObject({
      message: `s3://bucket/store-${opened}/k cannot be created: ConditionalRequestConflict was injected; other writers keep at the same object; try again later`,
    });
    const busy = { status: 503, code: 'ServiceUnavailable' } as const;
    proxy.inject(busy, busy, busy, busy, busy);
    await expect(store.list('t/')).rejects.toMatchObject({
      message: `s3://bucket/store-${opened}/t/ cannot be listed: ServiceUnavailable was injected; the server throttles or is overloaded; try again later`,
    });
  });

  test('a wrong clock is put right by what the server says', async () => {
    const store = fresh();
    proxy.inject({ status: 403, code: 'RequestTimeTooSkewed', date: new Date(Date.now() + 3_600_000) });
    expect(await store.create('k', '1')).toBe(true);
  });

  test('a bucket that is not there is told by every method', async () => {
    const store = fresh({ bucket: 'missing-bucket' });
    const place = /^s3:\/\/missing-bucket\/store-\d+\/k\/? cannot be \w+: NoSuchBucket: .*; make the bucket/;
    const content = (): AsyncIterable<Uint8Array> => inChunks(pattern(10), 3);
    const calls = [
      store.read('k'),
      store.create('k', '1'),
      store.replace('k', '1', '"x"'),
      store.upload('k', content),
      store.open('k'),
      store.list('k/'),
    ];
    for (const answer of await Promise.allSettled(calls)) {
      expect(answer).toMatchObject({
        status: 'rejected',
        reason: { code: 'StoreUnavailable', message: expect.stringMatching(place) },
      });
    }
  });

  test.each([
    [
      'no server',
      { AWS_ENDPOINT_URL_S3: 'http://127.0.0.1:1' },
      /ECONNREFUSED 127\.0\.0\.1:1; check the network/,
    ],
    ['no such host', { AWS_ENDPOINT_URL_S3: 'http://s3.invalid' }, /s3\.invalid; check the network/],
    ['no region', { AWS_REGION: '' }, /Region is missing; set AWS_REGION/],
    [
      'no credentials',
      { AWS_ACCESS_KEY_ID: '', AWS_EC2_METADATA_DISABLED: 'true' },
      /CredentialsProviderError: .*; give AWS_ACCESS_KEY_ID/,
    ],
  ])('the terminal says that there is %s', async (_, given, message) => {
    const all = { ...environment(), HOME: folder, ...given };
    const env = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
    const { code, stdout } = await cli(['result', 'T', '--store', 's3://bucket/x'], folder, env);
    expect([code, JSON.parse(stdout)]).toEqual([
      3,
      { error: { code: 'StoreUnavailable', message: expect.stringMatching(message) } },
    ]);
  });
});
