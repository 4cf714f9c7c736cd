/** The life of steps and runs: the prose cases of area `lifecycle`, with real children and a real store. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runAttempt } from '../lib/attempt.ts';
import type { JsonObject, JsonValue } from '../lib/json.ts';
import { type RunPorts, runFlow } from '../lib/run.ts';
import { DEFAULT_RUN_TTL_SECS } from '../lib/start-run.ts';
import { stepTaskId } from '../lib/step.ts';
import { attemptKey, runKey } from '../lib/store/keys.ts';
import { readResult } from '../lib/store/result-store.ts';
import { cancelRun } from '../lib/store/run-store.ts';
import { oneStep, shellAgents, step } from './support/documents.ts';
import { ENGINES } from './support/engines.ts';
import { faultyStore } from './support/faulty-store.ts';
import { realPorts as portsIn, temporaryFolder } from './support/ports.ts';
import { isRunning } from './support/processes.ts';

const folder = temporaryFolder();

async function run(blueprint: JsonObject, ports: RunPorts, given: JsonObject = {}) {
  return runFlow({ run_id: 'R-1', blueprint, ...given } as Parameters<typeof runFlow>[0], ports);
}

function count(file: string): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
}

describe.each(ENGINES)('started by %s', (_by, spawn) => {
  const realPorts = (where: string): Promise<RunPorts> => portsIn(where, { spawn });

  test('one dispatch is one attempt: a failing child is not started again', async () => {
    const file = join(await mkdtemp(join(folder, 'n-')), 'runs');
    const ports = await realPorts(folder);
    const ended = await run(oneStep({ argv: ['sh', '-c', 'echo x >> "$1"; exit 1', 'x', file] }), ports);
    expect([ended.status, count(file)]).toEqual(['failed', 1]);
  });

  test('every round of a loop is a task of its own with attempt 1', async () => {
    const body = step('a', 'x', '$.last');
    const loop = {
      kind: 'loop',
      counter: { op: 'path', at: '$.n' },
      cond: { op: 'lit', value: true },
      body,
      max: 3,
    };
    const ports = await realPorts(folder);
    const ended = await run(shellAgents({ a: 'echo "\\"$MSE_TASK_ID/$MSE_ATTEMPT\\""' }, loop), ports);
    const ids = [0, 1, 2].map((round) => stepTaskId('R-1', `/body/${round}`));
    expect(ended.steps.map(({ task_id, attempt }) => `${task_id}/${attempt}`)).toEqual(
      ids.map((id) => `${id}/1`),
    );
    expect(ended.ctx).toEqual({ n: 3, last: `${ids[2]}/1` });
  });

  test('a blocked step ends the run with its name and value', async () => {
    const ended = await run(
      oneStep({ argv: ['sh', '-c', 'echo \'{"why":"no"}\'; exit 3'] }),
      await realPorts(folder),
    );
    expect(ended).toMatchObject({
      status: 'failed',
      error: { failed_step: 'w', verdict_value: { why: 'no' } },
    });
    expect(ended.error?.message).toContain('blocked: {"why":"no"}');
  });

  test('a step that cannot be rendered ends the run and is named', async () => {
    const ended = await run(oneStep({ argv: ['printf', '{model}'] }), await realPorts(folder));
    expect(ended).toMatchObject({ status: 'failed', error: { failed_step: 'w' } });
    expect(ended.error?.message).toContain('{model}');
  });

  test('the final context of a done run is in the store', async () => {
    const ports = await realPorts(folder);
    const ended = await run(oneStep({ argv: ['echo', '5'] }), ports, { ctx: { k: 1 } });
    const stored = await ports.store.read(runKey('R-1', '0/result.json'));
    expect(JSON.parse(String(stored?.body))).toMatchObject({ status: 'done', ctx: { k: 1, r: 5 } });
    expect(ended.ctx).toEqual({ k: 1, r: 5 });
  });

  test('the result of a step holds times, stats and exit code', async () => {
    const ports = await realPorts(folder);
    const output = { stats: { usage_ptr: '/u', model_ptr: '/m', num_turns_ptr: '/n' } };
    const printed = '{"u":{"input_tokens":1,"output_tokens":2},"m":"big","n":4}';
    const ended = await run(oneStep({ argv: ['echo', printed], output }), ports);
    const result = await readResult(ports.store, { task_id: ended.steps[0]!.task_id, attempt: 1 });
    expect(result).toMatchObject({
      status: 'passed',
      attempt: 1,
      exit: { code: 0, signal: null },
      stats: {
        worker_kind: 'subprocess',
        model: 'big',
        num_turns: 4,
        usage: { input_tokens: 1, output_tokens: 2, total_tokens: 3 },
        adapter_data: { exit_code: 0 },
      },
    });
    expect(Date.parse(result!.completed_at) - Date.parse(result!.started_at)).toBeGreaterThanOrEqual(0);
    expect(result!.duration_ms).toBeGreaterThan(0);
  });

  test('steps end as passed, blocked, failed or cancelled', async () => {
    const ports = await realPorts(folder);
    const tried = (ref: string): JsonObject => ({
      kind: 'try',
      body: step(ref, 'x', `$.${ref}`),
      catch: { kind: 'seq', children: [] },
    });
    const flow = { kind: 'seq', children: ['good', 'bad', 'none', 'slow'].map(tried) };
    const blueprint = shellAgents({ good: 'echo 1', bad: 'exit 1', none: '', slow: 'sleep 60' }, flow);
    (blueprint.subprocesses as JsonObject[])[2]!.argv = ['/no/such/program'];
    const cancelled = stepTaskId('R-1', '/children/3/body');
    await ports.store.create(attemptKey(cancelled, 1, 'cancel.json'), '{}');
    const ended = await run(blueprint, ports);
    expect(ended.steps.map(({ status }) => status)).toEqual(['passed', 'blocked', 'failed', 'cancelled']);
  });

  test('stream steps record the same stats', async () => {
    const ports = await realPorts(folder);
    const final = '{"type":"final","ok":true,"content":{"kind":"inline","value":1}}';
    const ended = await run(oneStep({ argv: ['echo', final], stream_mode: 'ndjson_lines' }), ports);
    const { task_id } = ended.steps[0]!;
    expect(await readResult(ports.store, { task_id, attempt: 1 })).toMatchObject({
      stats: { worker_kind: 'subprocess', adapter_data: { exit_code: 0 } },
    });
    const events = await ports.store.read(attemptKey(task_id, 1, 'events.ndjson'));
    expect(String(events?.body).trim()).toBe(
      JSON.stringify({ type: 'final', content: { kind: 'inline', value: 1 }, ok: true }),
    );
  });

  test('artifacts of a stream are stored under their names, and one whose name is no key is told', async () => {
    const ports = await realPorts(folder);
    const artifact = (name: string, value: unknown) =>
      JSON.stringify({ type: 'artifact', name, content: { kind: 'inline', value } });
    const final = '{"type":"final","ok":true,"content":{"kind":"inline","value":1}}';
    const lines = [
      artifact('../report.md', 'old'),
      artifact('../report.md', '# hi'),
      artifact('data', { n: 1 }),
      artifact('..', 'x'),
      final,
    ];
    const ended = await run(
      oneStep({ argv: ['printf', '%s\\n', ...lines], stream_mode: 'ndjson_lines' }),
      ports,
    );
    const { task_id } = ended.steps[0]!;
    expect(await ports.store.list(attemptKey(task_id, 1, 'artifacts/'))).toEqual([
      attemptKey(task_id, 1, 'artifacts/..%2Freport.md'),
      attemptKey(task_id, 1, 'artifacts/data'),
    ]);
    expect(String((await ports.store.read(attemptKey(task_id, 1, 'artifacts/..%2Freport.md')))?.body)).toBe(
      '# hi',
    );
    expect((await readResult(ports.store, { task_id, attempt: 1 }))?.warnings).toEqual([
      expect.stringContaining("artifact '..' is not stored"),
    ]);
  });

  test('at its time limit a run is failed and nothing of it runs on', async () => {
    const file = join(await mkdtemp(join(folder, 'pid-')), 'pid');
    const ports = await realPorts(folder);
    const begun = Date.now();
    const ended = await run(oneStep({ argv: ['sh', '-c', 'echo $$ > "$1"; sleep 60', 'x', file] }), ports, {
      ttl_secs: 1,
    });
    expect(ended).toMatchObject({
      status: 'failed',
      error: { message: 'the run exceeded its time limit of 1 s' },
    });
    expect(Date.now() - begun).toBeLessThan(8000);
    expect(isRunning(readFileSync(file, 'utf8').trim())).toBe(false);
  });

  test('a cancelled run ends its children and stays cancelled', async () => {
    const file = join(await mkdtemp(join(folder, 'pid-')), 'pid');
    const ports = await realPorts(folder);
    const blueprint = oneStep({
      argv: ['sh', '-c', 'trap "" TERM; echo $$ > "$1"; sleep 60', 'x', file],
      limits: { grace_secs: 0.3 },
    });
    const running = run(blueprint, ports);
    while (!existsSync(file)) await new Promise((resolve) => setTimeout(resolve, 20));
    await cancelRun(ports.store, 'R-1');
    expect(await running).toMatchObject({ status: 'cancelled' });
    expect(isRunning(readFileSync(file, 'utf8').trim())).toBe(false);
    expect(await run(blueprint, ports)).toMatchObject({ status: 'cancelled' });
  });

  test('the time limit of a run: the request wins over the document, the document over the default', async () => {
    const limit = async (document: JsonObject, given: JsonObject): Promise<string | undefined> =>
      (await run(oneStep({ argv: ['sleep', '60'] }, document), await realPorts(folder), given)).error
        ?.message;
    const metadata = { default_run_ttl_secs: 1 };
    expect(await limit({ metadata }, { ttl_secs: 0.4 })).toBe('the run exceeded its time limit of 0.4 s');
    expect(await limit({ metadata }, {})).toBe('the run exceeded its time limit of 1 s');
    expect(DEFAULT_RUN_TTL_SECS).toBe(1800);
  });

  test('a run goes on where it was interrupted: settled steps, passed or not, are not run again', async () => {
    const dir = await mkdtemp(join(folder, 'crash-'));
    const ports = await realPorts(folder);
    const counted = (name: string, rest: string): string => `echo x >> ${dir}/${name}; ${rest}`;
    const scripts = {
      a: counted('a', 'echo 1'),
      b: counted('b', 'exit 1'),
      c: counted('c', `test -e ${dir}/go || sleep 60; echo 3`),
    };
    const tried = { kind: 'try', body: step('b', 'x', '$.b'), catch: { kind: 'seq', children: [] } };
    const blueprint = shellAgents(scripts, {
      kind: 'seq',
      children: [step('a', 'x', '$.a'), tried, step('c', 'x', '$.c')],
    });
    const controller = new AbortController();
    const first = run(blueprint, { ...ports, signal: controller.signal });
    while (count(join(dir, 'c')) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort('interrupted');
    await expect(first).rejects.toMatchObject({ code: 'AttemptInProgress' });
    writeFileSync(join(dir, 'go'), '');
    expect(await run(blueprint, ports)).toMatchObject({ status: 'done', ctx: { a: 1, c: 3 } });
    expect(['a', 'b', 'c'].map((name) => count(join(dir, name)))).toEqual([1, 1, 2]);
  });

  test('a failed run is answered from the store, and retry gives only the step that ended it a new attempt', async () => {
    const dir = await mkdtemp(join(folder, 'retry-'));
    const ports = await realPorts(folder);
    const scripts = {
      a: `echo x >> ${dir}/a; echo 1`,
      b: `echo x >> ${dir}/b; test -e ${dir}/go && echo "\\"$MSE_ATTEMPT\\""`,
    };
    const blueprint = shellAgents(scripts, {
      kind: 'seq',
      children: [step('a', 'x', '$.a'), step('b', 'x', '$.b')],
    });
    expect(await run(blueprint, ports)).toMatchObject({ status: 'failed' });
    writeFileSync(join(dir, 'go'), '');
    expect(await run(blueprint, ports)).toMatchObject({ status: 'failed' });
    expect(count(join(dir, 'b'))).toBe(1);
    expect(await run(blueprint, ports, { retry: true })).toMatchObject({
      status: 'done',
      ctx: { a: 1, b: '2' },
    });
    expect([count(join(dir, 'a')), count(join(dir, 'b'))]).toEqual([1, 2]);
    expect(await run(blueprint, ports)).toMatchObject({ status: 'done', ctx: { a: 1, b: '2' } });
  });

  test('a retry keeps what was decided: a race is not run again, nor the lanes that a caught failure dropped', async () => {
    const dir = await mkdtemp(join(folder, 'decided-'));
    const ports = await realPorts(folder);
    const fanout = (ref: string, items: string[], join: string, out: string): JsonObject => ({
      kind: 'fanout',
      items: { op: 'lit', value: items },
      bind: { op: 'path', at: '$.i' },
      body: { kind: 'step', ref, in: { op: 'path', at: '$.i' }, out: { op: 'path', at: '$.r' } },
      join,
      out: { op: 'path', at: out },
    });
    const scripts = {
      race: `echo "$1" >> ${dir}/race; test "$1" = slow && sleep 0.8; until grep -q slow ${dir}/race; do sleep 0.02; done; echo "\\"$1\\""`,
      lane: `echo "$1" >> ${dir}/lanes; test "$1" = bad && { sleep 0.2; exit 1; }; sleep 0.8; echo 1`,
      last: `test -e ${dir}/go && echo 1`,
    };
    const flow = {
      kind: 'seq',
      children: [
        fanout('race', ['slow', 'fast'], 'race', '$.won'),
        {
          kind: 'try',
          body: fanout('lane', ['bad', 'good'], 'all', '$.all'),
          catch: { kind: 'seq', children: [] },
        },
        step('last', 'x', '$.last'),
      ],
    };
    const blueprint = shellAgents(scripts, flow);
    expect(await run(blueprint, ports)).toMatchObject({ status: 'failed', error: { failed_step: 'last' } });
    writeFileSync(join(dir, 'go'), '');
    const ended = await run(blueprint, { ...ports, max_concurrency: 1 }, { retry: true });
    expect(ended).toMatchObject({ status: 'done', ctx: { won: { r: 'fast' }, last: 1 } });
    expect([count(join(dir, 'race')), count(join(dir, 'lanes'))]).toEqual([2, 2]);
  });

  test('a cancelled run can be retried, and then is not cancelled by the old marker', async () => {
    const dir = await mkdtemp(join(folder, 'again-'));
    const ports = await realPorts(folder);
    const blueprint = oneStep({
      argv: ['sh', '-c', `echo x >> ${dir}/n; test -e ${dir}/go || sleep 60; sleep 0.5; echo 1`],
    });
    const running = run(blueprint, ports);
    while (count(join(dir, 'n')) === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    await cancelRun(ports.store, 'R-1');
    expect(await running).toMatchObject({ status: 'cancelled' });
    writeFileSync(join(dir, 'go'), '');
    expect(await run(blueprint, ports, { retry: true })).toMatchObject({ status: 'done', ctx: { r: 1 } });
  });

  test('a run lives through a store that fails now and then', async () => {
    const ports = await realPorts(folder);
    const store = faultyStore(ports.store, (call) => (call % 3 === 0 ? 'fails' : undefined));
    const flow = { kind: 'seq', children: [step('a', 'x', '$.a'), step('a', 'y', '$.b')] };
    expect(await run(shellAgents({ a: 'echo 1' }, flow), { ...ports, store })).toMatchObject({
      status: 'done',
      ctx: { a: 1, b: 1 },
    });
  });

  test('a secret that is not mapped is refused before anything of the run starts', async () => {
    const dir = await mkdtemp(join(folder, 'secret-'));
    const document = shellAgents(
      { a: `echo x >> ${dir}/n`, b: 'true' },
      { kind: 'seq', children: [step('a', 'x', '$.a'), step('b', 'x', '$.b')] },
    );
    (document.subprocesses as JsonObject[])[1]!.secrets = { TOKEN: 'api' };
    await expect(run(document, await realPorts(folder))).rejects.toMatchObject({ code: 'InvalidBlueprint' });
    expect(count(join(dir, 'n'))).toBe(0);
  });

  test('the same run id with another document or context is a conflict', async () => {
    const ports = await realPorts(folder);
    await run(oneStep({ argv: ['echo', '1'] }), ports);
    await expect(run(oneStep({ argv: ['echo', '2'] }), ports)).rejects.toMatchObject({
      code: 'AttemptConflict',
    });
    await expect(run(oneStep({ argv: ['echo', '1'] }), ports, { ctx: { a: 1 } })).rejects.toMatchObject({
      code: 'AttemptConflict',
    });
  });

  test('two processes on one run id start every step once', async () => {
    const dir = await mkdtemp(join(folder, 'two-'));
    const ports = await realPorts(folder);
    const blueprint = shellAgents({ a: `echo x >> ${dir}/a; sleep 0.3; echo 1` }, step('a', 'x', '$.a'));
    const [one, two] = await Promise.all([run(blueprint, ports), run(blueprint, ports)]);
    expect(one.ctx).toEqual(two.ctx);
    expect(count(join(dir, 'a'))).toBe(1);
  });

  test('submit_format text keeps a string that holds JSON as text', async () => {
    const template = { argv: ['echo', '"[1]"'] };
    expect((await run(oneStep(template), await realPorts(folder))).ctx).toEqual({ r: [1] });
    const text = oneStep(template, {}, { meta: { ctx: { submit_format: 'text' } } });
    expect((await run(text, await realPorts(folder))).ctx).toEqual({ r: '[1]' });
  });

  test('a child can read its own payload, and its system file is private and gone afterwards', async () => {
    const show = 'stat -c %a "$1" "$(dirname "$1")" "$MSE_PAYLOAD_FILE"; echo "$1"; cat "$MSE_PAYLOAD_FILE"';
    const document = oneStep(
      { argv: ['sh', '-c', show, 'x', '{system_file}'] },
      {},
      { profile: { system_prompt: 'S {{ directive }}', model: 'm', tools: ['A'] } },
    );
    const ended = await run(document, await realPorts(folder), { context: { work_dir: '/usr', other: 1 } });
    const lines = String(((ended.ctx as JsonObject).r as JsonObject).raw).split('\n');
    expect(lines.slice(0, 3)).toEqual(['600', '700', '600']);
    expect(existsSync(lines[3]!)).toBe(false);
    const { task_id } = ended.steps[0]!;
    expect(JSON.parse(lines[4]!)).toEqual({
      task_id,
      attempt: 1,
      agent: 'w',
      system: 'S hello',
      prompt: 'hello',
      model: 'm',
      tools: ['A'],
      context: { task_id, attempt: 1, agent: 'w', work_dir: '/usr', run_id: 'R-1', extra: { other: 1 } },
    });
  });

  test('a system prompt of 30,000 bytes reaches {system} whole', async () => {
    const prompt = 's'.repeat(30_000);
    const document = oneStep(
      { argv: ['sh', '-c', 'printf %s "$1" | wc -c', 'x', '{system}'] },
      {},
      { profile: { system_prompt: prompt } },
    );
    expect((await run(document, await realPorts(folder))).ctx).toEqual({ r: 30_000 });
  });

  test('nothing is written into the work dir', async () => {
    const dir = await mkdtemp(join(folder, 'work-'));
    await run(oneStep({ argv: ['pwd'] }), await realPorts(folder), { context: { work_dir: dir } });
    expect(readdirSync(dir)).toEqual([]);
  });

  test('race and any settle by who is first, and a loser is ended', async () => {
    const dir = await mkdtemp(join(folder, 'race-'));
    const lanes = (join: string): JsonObject => ({
      kind: 'fanout',
      items: { op: 'lit', value: ['60', '0', 'bad'] },
      bind: { op: 'path', at: '$.i' },
      body: { kind: 'step', ref: 'a', in: { op: 'path', at: '$.i' }, out: { op: 'path', at: '$.r' } },
      join,
      out: { op: 'path', at: '$.winner' },
    });
    const script = `test "$1" = bad && { test "$(cat ${dir}/kind)" = any || sleep 2; exit 1; }; sleep "$1"; echo "\\"$1\\""`;
    for (const kind of ['race', 'any']) {
      writeFileSync(join(dir, 'kind'), kind);
      const ports = await realPorts(folder);
      const begun = Date.now();
      const ended = await run(shellAgents({ a: script }, lanes(kind)), ports);
      expect(ended.ctx).toEqual({ winner: { i: '0', r: '0' } });
      expect(Date.now() - begun).toBeLessThan(6000);
      expect((await ports.store.list(runKey('R-1', '0/decided/'))).length).toBe(1);
    }
  });

  test('an attempt that runs longer than its claim needs nothing but its own limit', async () => {
    const ports = await realPorts(folder);
    const task = {
      task_id: 'T-1',
      attempt: 1,
      agent: 'w',
      blueprint: oneStep({ argv: ['sh', '-c', 'sleep 1; echo 1'] }) as JsonValue,
      in: '',
    };
    expect(await runAttempt(task, ports)).toMatchObject({ status: 'passed', value: 1 });
  });
});
