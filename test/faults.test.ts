/** Faults around an attempt: the store, our own death, many at once, a full disk, a long time. */
import { execFileSync, spawn as startProcess } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { runAttempt } from '../lib/attempt.ts';
import { StepspawnError } from '../lib/errors.ts';
import type { RunPorts } from '../lib/run.ts';
import { localSecrets } from '../lib/secrets.ts';
import type { TaskResult } from '../lib/task.ts';
import { attempt, refusal, shell, taskOf } from './support/attempts.ts';
import { type Fault, faultyStore } from './support/faulty-store.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';
import { isRunning, runningAs, runningWith, zombiesBelow } from './support/processes.ts';

const folder = temporaryFolder();
/** no look at the cancel marker */
const NEVER = { first_ms: 600_000, then_ms: 600_000 };

function counted(): { readonly file: string; readonly count: () => number } {
  const file = join(mkdtempSync(join(folder, 'n-')), 'runs');
  return { file, count: () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0) };
}

async function answer(running: Promise<TaskResult>): Promise<TaskResult | StepspawnError> {
  try {
    return await running;
  } catch (error) {
    if (error instanceof StepspawnError) return error;
    throw error;
  }
}

describe('a store that misbehaves at any one call', () => {
  const CALLS = [0, 1, 2, 3, 4];
  const FAULTS: Fault[] = ['fails', 'lost', 'stalls', 'late'];
  test.each(CALLS.flatMap((call) => FAULTS.map((fault) => [call, fault] as const)))(
    'call %i %s: one child, one result, and the same answer afterwards',
    async (call, fault) => {
      const { file, count } = counted();
      const ports = await realPorts(folder, { store_patience_ms: 500, cancel_poll: NEVER });
      const store = faultyStore(ports.store, (n) => (n === call ? fault : undefined));
      const big = 'head -c 20000 /dev/zero | tr "\\0" x';
      const task = taskOf(shell(`echo x >> ${file}; ${big}`, { limits: { timeout_secs: 5 } }));
      const first = await answer(runAttempt(task, { ...ports, store }));
      expect(first).toMatchObject({ status: 'passed', stdout: { size_bytes: 20_000 } });
      const again = await runAttempt(task, ports);
      expect(again).toMatchObject({ status: 'passed', replayed: true, stdout: { size_bytes: 20_000 } });
      expect((await ports.store.read(again.stdout.key ?? ''))?.body.length).toBe(20_000);
      expect(count()).toBe(1);
    },
  );

  test('that is down before the claim: refused, nothing started, nothing left', async () => {
    const { file, count } = counted();
    const ports = await realPorts(folder, { store_patience_ms: 200 });
    const down = faultyStore(ports.store, () => 'fails');
    const error = await refusal(runAttempt(taskOf(shell(`echo x >> ${file}`)), { ...ports, store: down }));
    expect([error.code, count()]).toEqual(['StoreUnavailable', 0]);
    expect(readdirSync(ports.scratch.dir).filter((name) => name.startsWith('a'))).toEqual([]);
  });

  test('that stays down after the child ran: tried until the deadline, and nothing else is stored', async () => {
    const ports = await realPorts(folder, { store_patience_ms: 500 });
    const down = faultyStore(ports.store, (_call, what) =>
      what.includes('result.json') ? 'fails' : undefined,
    );
    const task = taskOf(shell('echo 1', { limits: { timeout_secs: 0.5, grace_secs: 0.1 } }));
    const error = await refusal(runAttempt(task, { ...ports, store: down }));
    expect(error.code).toBe('StoreUnavailable');
    expect(
      down.calls.filter((call) => call.startsWith('create') && call.includes('result')).length,
    ).toBeGreaterThan(3);
    const after = await runAttempt(task, ports);
    expect(after).toMatchObject({
      status: 'passed',
      value: 1,
      warnings: [expect.stringContaining('may have run once already')],
    });
  }, 30_000);
});

describe('our own death', () => {
  test('kill -9 at any moment: the next call answers correctly at once, and no orphan is left', async () => {
    const script = join(import.meta.dirname, 'support', 'attempt-process.ts');
    const root = mkdtempSync(join(folder, 'kill-'));
    for (let round = 0; round < 12; round++) {
      const { file, count } = counted();
      const args = [
        script,
        join(root, 'store'),
        root,
        `T-kill-${round}`,
        `echo $$ >> ${file}; sleep 0.5; echo 7`,
      ];
      const killed = startProcess(process.execPath, args, { stdio: 'ignore' });
      const gone = new Promise((resolve) => killed.once('exit', resolve));
      await new Promise((resolve) => setTimeout(resolve, 150 + round * 60));
      killed.kill('SIGKILL');
      await gone;
      const started = count();
      const next = startProcess(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      const result = JSON.parse(await text(next.stdout));
      expect(result).toMatchObject({ status: 'passed', value: 7 });
      if (started > 0 && !result.replayed) expect(result.warnings).toHaveLength(1);
      else expect(result.warnings.length).toBeLessThanOrEqual(1);
      const pids = readFileSync(file, 'utf8').trim().split('\n');
      expect(pids.length).toBeLessThanOrEqual(2);
      expect(pids.filter(isRunning)).toEqual([]);
    }
    expect(readdirSync(root).filter((name) => name.startsWith('stepspawn-')).length).toBeLessThanOrEqual(1);
  }, 60_000);

  test('a child that kills us: the next call takes over and answers', async () => {
    const script = join(import.meta.dirname, 'support', 'attempt-process.ts');
    const root = mkdtempSync(join(folder, 'murder-'));
    const { file, count } = counted();
    const child = `echo x >> ${file}; test "$(wc -l < ${file})" -gt 1 || { kill -9 "$(cat ${root}/pid)"; sleep 319; }; echo 7`;
    const args = [script, join(root, 'store'), root, 'T-murder', child];
    const first = startProcess(process.execPath, args, { stdio: 'ignore' });
    expect(await new Promise((resolve) => first.once('exit', (_code, signal) => resolve(signal)))).toBe(
      'SIGKILL',
    );
    const second = startProcess(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    expect(JSON.parse(await text(second.stdout))).toMatchObject({
      status: 'passed',
      value: 7,
      warnings: [expect.any(String)],
    });
    expect([count(), runningAs('sleep', '319')]).toEqual([2, []]);
  });
});

describe('many at once', () => {
  test('50 callers of one attempt start one child, and each gets its result or is told to wait', async () => {
    const { file, count } = counted();
    const ports = await realPorts(folder);
    const task = taskOf(shell(`echo x >> ${file}; sleep 0.3; echo 1`));
    const answers = await Promise.all(Array.from({ length: 50 }, () => answer(runAttempt(task, ports))));
    expect(count()).toBe(1);
    for (const one of answers) {
      if (one instanceof StepspawnError) expect(one.code).toBe('AttemptInProgress');
      else expect(one).toMatchObject({ status: 'passed', value: 1 });
    }
    expect(answers.filter((one) => !(one instanceof StepspawnError))).not.toHaveLength(0);
    expect(await runAttempt(task, ports)).toMatchObject({ replayed: true, value: 1 });
  });

  test('200 attempts at once all pass with their own output', async () => {
    const ports = await realPorts(folder);
    const results = await Promise.all(
      Array.from({ length: 200 }, (_, i) =>
        attempt(ports, { argv: ['cat'], stdin: '{prompt}' }, { in: `n${i}` }),
      ),
    );
    expect(results.map(({ value }) => (value as { raw: string }).raw)).toEqual(
      results.map((_, i) => `n${i}`),
    );
  }, 60_000);

  test('2,000 attempts leave descriptors, processes, zombies, scratch and memory as they were', async () => {
    const ports = await realPorts(folder);
    const template = shell('echo e >&2; cat', { stdin: '{prompt}', env: { OF_TEST: folder } });
    const round = (count: number): Promise<unknown> =>
      inLanes(4, count, () => attempt(ports, template, { in: 'x' }));
    await round(200);
    const before = await footprint(ports);
    await round(2000);
    const after = await footprint(ports);
    expect(after.descriptors).toBeLessThanOrEqual(before.descriptors + 2);
    expect(after.scratch).toEqual(before.scratch);
    expect(after.zombies).toBe(0);
    expect(runningWith(`OF_TEST=${folder}`)).toEqual([]);
    expect(after.memory - before.memory).toBeLessThan(4 * 1024 * 1024);
  }, 240_000);
});

async function inLanes(lanes: number, count: number, work: () => Promise<unknown>): Promise<void> {
  let left = count;
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (left-- > 0) await work();
    }),
  );
}

async function footprint(ports: RunPorts) {
  collectGarbage();
  await new Promise((resolve) => setTimeout(resolve, 200));
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    zombies: zombiesBelow(process.pid).length,
    scratch: readdirSync(ports.scratch.dir).filter((name) => !/^(fifos|untouched)/.test(name)),
    memory: liveMemory(),
  };
}

/** bytes that are still in use once garbage is collected; the resident size also tells how busy the machine was */
function liveMemory(): number {
  collectGarbage();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

setFlagsFromString('--expose-gc');
const collectGarbage: () => void = runInNewContext('gc');

describe('a full disk', () => {
  /** Runs node code with a tmpfs of 3 MB mounted for it alone at the folder of its first argument. */
  function onSmallDisk(code: string): unknown {
    const disk = mkdtempSync(join(folder, 'disk-'));
    const file = join(mkdtempSync(join(folder, 'code-')), 'main.ts');
    writeFileSync(
      file,
      code
        .replaceAll('LIB', join(import.meta.dirname, '..', 'lib'))
        .replaceAll('SUPPORT', join(import.meta.dirname, 'support')),
    );
    const script = `mount -t tmpfs -o size=3m tmpfs ${disk} && exec ${process.execPath} ${file} ${disk}`;
    return JSON.parse(
      execFileSync('unshare', ['--user', '--map-root-user', '--mount', 'sh', '-c', script], {
        encoding: 'utf8',
      }),
    );
  }
  const SETUP = `
    import { attempt, shell, refusal } from 'SUPPORT/attempts.ts';
    import { runAttempt } from 'LIB/attempt.ts';
    import { baseEnvironment, readSettings } from 'LIB/config.ts';
    import { NO_SECRETS } from 'LIB/secrets.ts';
    import { folderStore } from 'LIB/store/folder.ts';
    import { openScratch } from 'LIB/worker/scratch.ts';
    import { createSpawn } from 'LIB/worker/spawn.ts';
    import { mkdtempSync, writeFileSync, readdirSync, rmSync } from 'node:fs';
    const disk = process.argv[2];
    const free = mkdtempSync('/tmp/stepspawn-test-free-');
    const spawn = createSpawn(readSettings(process.env).launcher);
    const common = { spawn, base_env: baseEnvironment(process.env), secrets: NO_SECRETS, default_cwd: null, host: null, cancel_poll: { first_ms: 1000, then_ms: 1000 }, store_patience_ms: 300 };
    const full = (name) => { try { writeFileSync(disk + '/' + name, Buffer.alloc(4_000_000)); } catch {} };
    const done = (answer) => { rmSync(free, { recursive: true, force: true }); console.log(JSON.stringify(answer)); };
  `;

  test('of the scratch: a clear retryable error before anything runs', () => {
    const answer = onSmallDisk(`${SETUP}
      const ports = { ...common, store: folderStore(free), scratch: await openScratch({ root: disk }) };
      await attempt(ports, shell('echo 1'));
      full('fill');
      const error = await refusal(attempt(ports, { argv: ['cat'], stdin: '{prompt}' }, { in: 'x'.repeat(100000), task_id: 'T-full' }));
      rmSync(disk + '/fill');
      const again = await attempt(ports, { argv: ['cat'], stdin: '{prompt}' }, { in: 'x'.repeat(100000), task_id: 'T-full' });
      done({ code: error.code, message: error.message, again: again.status });`);
    expect(answer).toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringContaining('no space left'),
      again: 'passed',
    });
  });

  test('filled by the child: a result that says so, and nothing half-written', () => {
    const answer = onSmallDisk(`${SETUP}
      const ports = { ...common, store: folderStore(free), scratch: await openScratch({ root: disk }) };
      const result = await attempt(ports, shell('yes'));
      const left = readdirSync(ports.scratch.dir).filter((name) => name.startsWith('a'));
      done({ ok: result.ok, reason: result.reason, left });`);
    expect(answer).toMatchObject({ ok: false, left: [] });
    expect(['output_limit', 'exit_nonzero']).toContain((answer as { reason: string }).reason);
  });

  test('of the store: unavailable, and no result that could be taken for whole', () => {
    const answer = onSmallDisk(`${SETUP}
      const ports = { ...common, store: folderStore(disk + '/store'), scratch: await openScratch({ root: free }) };
      await attempt(ports, shell('echo 1'));
      full('fill');
      const error = await refusal(attempt(ports, shell('head -c 50000 /dev/zero', { limits: { timeout_secs: 0.3, grace_secs: 0.1 } }), { task_id: 'T-full' }));
      const stored = await folderStore(disk + '/store').read('tasks/T-full/1/result.json');
      done({ code: error.code, message: error.message, stored });`);
    expect(answer).toMatchObject({
      code: 'StoreUnavailable',
      message: expect.stringContaining('no space left'),
      stored: null,
    });
  }, 30_000);
});

describe('secrets by reference', () => {
  const template = shell('printf %s "$TOKEN" > "$TMPDIR/t"; wc -c < "$TMPDIR/t"', {
    secrets: { TOKEN: 'api' },
  });

  test('reach the child from a variable or a file, and nothing that is stored', async () => {
    const file = join(mkdtempSync(join(folder, 'secret-')), 'token');
    writeFileSync(file, 's3cret-from-file\n');
    for (const source of ['env:HOST_TOKEN', `file:${file}`]) {
      const secrets = localSecrets({ api: source }, { HOST_TOKEN: 's3cret-from-file' });
      const ports = await realPorts(folder, { secrets });
      const result = await attempt(ports, template);
      expect(result.value).toBe(16);
      const stored = (await ports.store.list('tasks/')).map(async (key) =>
        String((await ports.store.read(key))?.body),
      );
      expect((await Promise.all(stored)).join('\n')).not.toContain('s3cret');
    }
  });

  test('are hidden in tails, messages and stored streams, and left alone in the value', async () => {
    const secrets = localSecrets({ api: 'env:T' }, { T: 'a-long-secret' });
    const ports = await realPorts(folder, { secrets });
    const noisy =
      'head -c 20000 /dev/zero | tr "\\0" e >&2; echo "err $TOKEN" >&2; echo "{\\"v\\": \\"$TOKEN\\"}"; exit 3';
    const result = await attempt(ports, shell(noisy, { secrets: { TOKEN: 'api' } }));
    expect(result.value).toEqual({ v: 'a-long-secret' });
    expect(result.stderr.tail.endsWith('err *************\n')).toBe(true);
    expect(result.stdout.tail).toBe('{"v": "*************"}\n');
    expect(result.message).not.toContain('a-long-secret');
    const stored = await ports.store.read(result.stderr.key ?? '');
    expect([stored?.body.length, String(stored?.body).includes('a-long-secret')]).toEqual([
      result.stderr.size_bytes,
      false,
    ]);
  });

  test('of a name that is not mapped make the Blueprint invalid; one that cannot be read is retryable', async () => {
    const ports = await realPorts(folder);
    expect(await refusal(attempt(ports, template))).toMatchObject({
      code: 'InvalidBlueprint',
      issues: [{ code: 'unknown_secret', path: '/subprocesses/0/secrets/TOKEN' }],
    });
    const secrets = localSecrets({ api: 'env:NOT_SET' }, {});
    const error = await refusal(attempt({ ...ports, secrets }, template));
    expect([error.code, error.message]).toEqual([
      'StoreUnavailable',
      "secret 'api' cannot be resolved: environment variable NOT_SET is not set",
    ]);
  });
});

test('a clock that jumps changes neither durations nor the order of times', async () => {
  const ports = await realPorts(folder);
  const real = Date.now;
  const running = attempt(ports, shell('sleep 0.3; echo 1', { limits: { timeout_secs: 20 } }));
  await new Promise((resolve) => setTimeout(resolve, 100));
  Date.now = () => real() - 3_600_000;
  const back = await running;
  Date.now = () => real() + 3_600_000;
  const forward = await attempt(ports, shell('sleep 0.3; echo 1', { limits: { timeout_secs: 20 } }));
  Date.now = real;
  for (const result of [back, forward]) {
    expect(result.status).toBe('passed');
    expect(result.duration_ms).toBeGreaterThan(250);
    expect(result.duration_ms).toBeLessThan(5000);
  }
  expect(forward.started_at > back.completed_at).toBe(true);
});

test('our descriptors are where they were: nothing of a failed start stays open', async () => {
  const ports = await realPorts(folder);
  await refusal(attempt(ports, { argv: ['/no/such'] }));
  const before = readdirSync('/proc/self/fd').map(target).sort();
  for (let i = 0; i < 20; i++) await refusal(attempt(ports, { argv: ['/no/such'] }));
  for (let i = 0; i < 20; i++) await refusal(attempt(ports, { argv: ['true', 'x'.repeat(140_000)] }));
  expect(readdirSync('/proc/self/fd').map(target).sort()).toEqual(before);
});

function target(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}
