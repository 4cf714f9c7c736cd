/** What every store adapter promises; each adapter's test runs it against the real thing. */
import { randomUUID } from 'node:crypto';
import { createReadStream, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import type { ObjectStore } from '../../lib/store/object-store.ts';
import {
  type ClaimRequest,
  claimAttempt,
  readResult,
  releaseClaim,
  storeResult,
} from '../../lib/store/result-store.ts';
import type { TaskResult } from '../../lib/task.ts';
import { attempt, shell } from '../support/attempts.ts';
import { realPorts } from '../support/ports.ts';

const HOST = { boot_id: 'boot', pid: 1, start_time: 1 };

function request(task_id: string, given: Partial<ClaimRequest> = {}): ClaimRequest {
  const base = {
    task_id,
    attempt: 1,
    request_digest: 'sha256:a',
    holder: randomUUID(),
    now: 1000,
    deadline: 5000,
  };
  return { ...base, host: HOST, isAlive: () => true, ...given };
}

export function sampleResult(task_id: string, value: string): TaskResult {
  return {
    task_id,
    attempt: 1,
    agent: 'a',
    blueprint_digest: 'sha256:b',
    request_digest: 'sha256:a',
    status: 'passed',
    ok: true,
    reason: null,
    message: null,
    value,
    exit: { code: 0, signal: null },
    stats: { worker_kind: 'subprocess', adapter_data: { exit_code: 0 } },
    stdout: { size_bytes: 0, tail: '', key: null },
    stderr: { size_bytes: 0, tail: '', key: null },
    warnings: [],
    started_at: '2026-01-01T00:00:00.000000Z',
    completed_at: '2026-01-01T00:00:01.000000Z',
    duration_ms: 1000,
    replayed: false,
  };
}

/** Registers the tests of the contract; `open` gives a store that no other test uses. */
export function storeContract(open: () => Promise<ObjectStore>, folder: string): void {
  test('an object is created once and then left alone', async () => {
    const store = await open();
    expect(await store.read('a/b.json')).toBeNull();
    expect(await store.create('a/b.json', 'one')).toBe(true);
    expect(await store.create('a/b.json', 'two')).toBe(false);
    expect((await store.read('a/b.json'))?.body.toString()).toBe('one');
  });

  test('replacing needs the version that is there', async () => {
    const store = await open();
    await store.create('k', 'one');
    const first = await store.read('k');
    expect(await store.replace('k', 'two', first!.version)).toBe(true);
    expect(await store.replace('k', 'three', first!.version)).toBe(false);
    const second = await store.read('k');
    expect(second?.body.toString()).toBe('two');
    expect(await store.replace('k', 'four', second!.version)).toBe(true);
    expect((await store.read('k'))?.body.toString()).toBe('four');
  });

  test('a file is uploaded, read back as a stream, and listed in byte order', async () => {
    const store = await open();
    const path = join(folder, 'upload');
    writeFileSync(path, 'content');
    await store.upload('t/x/b', () => createReadStream(path));
    await store.create('t/x/a', '1');
    await store.create('t/y', '2');
    expect(await text((await store.open('t/x/b'))!)).toBe('content');
    expect(await store.open('t/none')).toBeNull();
    expect(await store.list('t/')).toEqual(['t/x/a', 't/x/b', 't/y']);
    expect(await store.list('none/')).toEqual([]);
  });

  test('artifacts lie under keys with escapes in folders of their own', async () => {
    const ports = await realPorts(folder, { store: await open() });
    const script = 'mkdir -p "out/a b"; printf 1 > "out/a b/é%.md"; printf 2 > ~/x; : > empty';
    const template = shell(script, { artifacts: [{ glob: '**' }, { glob: '~/*', required: true }] });
    const { artifacts } = await attempt(ports, template, { task_id: 'T-files' });
    const keys = ['empty', 'out/a%20b/%C3%A9%25.md', '%7E/x'].map(
      (name) => `tasks/T-files/1/artifacts/${name}`,
    );
    expect(artifacts?.map(({ key }) => key)).toEqual(keys);
    const found = await Promise.all(keys.map(async (key) => text((await ports.store.open(key))!)));
    expect(found).toEqual(['', '1', '2']);
    expect(await ports.store.list('tasks/T-files/1/artifacts/')).toEqual([...keys].sort());
  });

  test('of 50 callers of one attempt exactly one holds it', async () => {
    const store = await open();
    const answers = await Promise.allSettled(
      Array.from({ length: 50 }, () => claimAttempt(store, request('race'))),
    );
    const held = answers.filter((answer) => answer.status === 'fulfilled' && answer.value.kind === 'held');
    const refused = answers.filter(
      (answer) => answer.status === 'rejected' && answer.reason.code === 'AttemptInProgress',
    );
    expect([held.length, refused.length]).toEqual([1, 49]);
  });

  test('a settled attempt is answered, and only to the same request', async () => {
    const store = await open();
    await claimAttempt(store, request('s'));
    const result = await storeResult(store, sampleResult('s', 'v'));
    expect(await claimAttempt(store, request('s'))).toEqual({ kind: 'settled', result });
    await expect(claimAttempt(store, request('s', { request_digest: 'sha256:z' }))).rejects.toMatchObject({
      code: 'AttemptConflict',
    });
  });

  test('the first result stays, whoever comes second', async () => {
    const store = await open();
    const first = await storeResult(store, sampleResult('w', 'first'));
    expect(await storeResult(store, sampleResult('w', 'second'))).toEqual({ ...first, replayed: true });
    expect(await storeResult(store, sampleResult('w', 'first'))).toEqual(first);
    expect(await readResult(store, { task_id: 'w', attempt: 1 })).toEqual(first);
  });

  test('a claim past its deadline is taken over by one of 20, at once when its holder is dead', async () => {
    const store = await open();
    await claimAttempt(store, request('late'));
    await expect(claimAttempt(store, request('late', { now: 4999 }))).rejects.toMatchObject({
      code: 'AttemptInProgress',
    });
    const callers = Array.from({ length: 20 }, () =>
      claimAttempt(store, request('late', { now: 5000, deadline: 9000 })),
    );
    const taken = (await Promise.allSettled(callers)).filter((answer) => answer.status === 'fulfilled');
    expect(taken).toHaveLength(1);
    expect(taken[0]).toMatchObject({ value: { held: { takenOver: { started: true } } } });

    await claimAttempt(store, request('dead'));
    const answer = await claimAttempt(store, request('dead', { isAlive: () => false }));
    expect(answer).toMatchObject({ kind: 'held', held: { takenOver: { sameHost: true } } });
  });

  test('a holder on another host is not taken for dead', async () => {
    const store = await open();
    await claimAttempt(store, request('far'));
    const elsewhere = request('far', { host: { ...HOST, boot_id: 'other' }, isAlive: () => false });
    await expect(claimAttempt(store, elsewhere)).rejects.toMatchObject({ code: 'AttemptInProgress' });
    await expect(claimAttempt(store, { ...elsewhere, host: null })).rejects.toMatchObject({
      code: 'AttemptInProgress',
    });
  });

  test('a claim that was given back is free, and tells whether a child ran', async () => {
    const store = await open();
    const answer = await claimAttempt(store, request('back'));
    if (answer.kind !== 'held') throw new Error('not held');
    await releaseClaim(store, answer.held, false);
    const again = await claimAttempt(store, request('back'));
    expect(again).toMatchObject({ kind: 'held', held: { takenOver: { started: false } } });
    await releaseClaim(store, answer.held, true);
    await expect(claimAttempt(store, request('back'))).rejects.toMatchObject({ code: 'AttemptInProgress' });
  });
}
