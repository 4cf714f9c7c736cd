/** New attempts that a template's rule asks for, in runs in this process; and what a run used in all. */
import { existsSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { JsonObject } from '../lib/json.ts';
import { runFlow, type StepProgress } from '../lib/run.ts';
import { stepTaskId } from '../lib/step.ts';
import { readResult } from '../lib/store/result-store.ts';
import { attempt } from './support/attempts.ts';
import { oneStep, shellAgents, step } from './support/documents.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();

/** Answers with the next line of a list at each start, and fails with exit code 1 unless it holds `fine`. */
const SCRIPT =
  'echo x >> "$1"; n=$(wc -l < "$1"); line=$(printf %s "$2" | sed -n "${lbrace}n}p"); printf "%s" "$line"; case $line in *fine*) ;; *) exit 1 ;; esac';

function flaky(lines: readonly JsonObject[], rule: JsonObject = {}) {
  const file = join(mkdtempSync(join(folder, 'n-')), 'starts');
  const blueprint = oneStep({
    argv: ['sh', '-c', SCRIPT, 'sh', file, lines.map((line) => JSON.stringify(line)).join('\n')],
    output: {
      result_ptr: '/r',
      error: { message_ptr: '/r', class_ptr: '/status' },
      stats: { usage_ptr: '/usage', cost_ptr: '/cost', num_turns_ptr: '/turns' },
    },
    retry: { when: { ptr: '/status', in: [429, 529] }, max_attempts: 3, backoff_secs: 0.2, ...rule },
  });
  return { blueprint, starts: () => (existsSync(file) ? readFileSync(file, 'utf8').length / 2 : 0) };
}

const busy = (n: number): JsonObject => ({
  status: 429,
  r: `busy ${n}`,
  usage: { input_tokens: n, output_tokens: 1, cache_read_input_tokens: 5 },
  cost: 0.25,
  turns: 1,
});
const fine: JsonObject = {
  r: 'fine',
  usage: { prompt: 100, candidates: 10, total: 111 },
  cost: 0.5,
  turns: 2,
};

test('a result that matches makes new attempts, later ones later, until one does not', async () => {
  const { blueprint, starts } = flaky([busy(1), busy(2), fine]);
  const ports = await realPorts(folder);
  const told: [string, string | null][] = [];
  const onProgress = ({ state, message }: StepProgress): void => void told.push([state, message]);
  const begun = performance.now();
  const ended = await runFlow({ run_id: 'R-1', blueprint }, { ...ports, onProgress });
  expect(performance.now() - begun).toBeGreaterThan(600);
  expect([ended.status, ended.ctx, starts()]).toEqual(['done', { r: 'fine' }, 3]);
  const task_id = stepTaskId('R-1', '');
  expect(ended.steps).toMatchObject([{ task_id, attempt: 3, status: 'passed' }]);
  const usage = { input_tokens: 103, output_tokens: 12, total_tokens: 116, cache_read_tokens: 10 };
  expect(ended.totals).toEqual({ usage, cost_usd: 1, num_turns: 4 });
  const results = await Promise.all(
    [1, 2, 3].map((each) => readResult(ports.store, { task_id, attempt: each })),
  );
  expect(results).toMatchObject([
    {
      status: 'blocked',
      reason: 'exit_nonzero',
      reported_error: { message: 'busy 1', class: '429' },
      retry: { attempt: 2 },
    },
    { status: 'blocked', retry: { attempt: 3 } },
    { status: 'passed', value: 'fine' },
  ]);
  expect(results[2]).not.toHaveProperty('retry');
  expect(told.map(([state]) => state)).toEqual(['started', 'retrying', 'retrying', 'passed']);
  expect(told[1]?.[1]).toContain('the program reports: 429: busy 1');
});

test('the last attempt of the rule is how the step ends; the run tells all that was used', async () => {
  const { blueprint, starts } = flaky([busy(1), busy(2), busy(3), fine]);
  const ports = await realPorts(folder);
  const ended = await runFlow({ run_id: 'R-1', blueprint }, ports);
  expect(ended).toMatchObject({
    status: 'failed',
    error: { failed_step: 'w', verdict_value: 'busy 3' },
    totals: {
      usage: { input_tokens: 6, output_tokens: 3, total_tokens: 9, cache_read_tokens: 15 },
      num_turns: 3,
    },
  });
  expect(starts()).toBe(3);
  const again = await runFlow({ run_id: 'R-1', blueprint }, ports);
  expect([again, starts()]).toEqual([ended, 3]);
  const retried = await runFlow({ run_id: 'R-1', blueprint, retry: true }, ports);
  expect(retried).toMatchObject({
    status: 'done',
    steps: [{ attempt: 4 }],
    totals: {
      usage: { input_tokens: 106, output_tokens: 13, total_tokens: 120 },
      cost_usd: 1.25,
      num_turns: 5,
    },
  });
  expect(starts()).toBe(4);
});

test('a result that does not match ends the step at once', async () => {
  const { blueprint, starts } = flaky([{ status: 401, r: 'no key' }, fine]);
  const ended = await runFlow({ run_id: 'R-1', blueprint }, await realPorts(folder));
  expect([ended.status, starts(), ended.totals]).toEqual(['failed', 1, undefined]);
});

test('a run that is interrupted between attempts goes on with the next one', async () => {
  const { blueprint, starts } = flaky([busy(1), fine], { backoff_secs: 1.5 });
  const ports = await realPorts(folder);
  const controller = new AbortController();
  const onProgress = ({ state }: StepProgress): void => {
    if (state === 'retrying') setTimeout(() => controller.abort(), 50);
  };
  const first = runFlow({ run_id: 'R-1', blueprint }, { ...ports, onProgress, signal: controller.signal });
  await expect(first).rejects.toMatchObject({ code: 'AttemptInProgress' });
  expect(starts()).toBe(1);
  const ended = await runFlow({ run_id: 'R-1', blueprint }, ports);
  expect([ended.status, ended.ctx, starts()]).toEqual(['done', { r: 'fine' }, 2]);
});

test('a retry by hand begins a row of its own', async () => {
  const { blueprint, starts } = flaky([{ status: 401, r: 'no key' }, busy(1), busy(2), busy(3), fine]);
  const ports = await realPorts(folder);
  const first = await runFlow({ run_id: 'R-1', blueprint }, ports);
  expect([first.status, starts()]).toEqual(['failed', 1]);
  const second = await runFlow({ run_id: 'R-1', blueprint, retry: true }, ports);
  expect([second.status, second.steps[0]?.attempt, starts()]).toEqual(['failed', 4, 4]);
});

test('what was used is told also where the last attempt could not be run, or was not due', async () => {
  const { blueprint } = flaky([busy(1), fine], { backoff_secs: 60 });
  const ended = await runFlow({ run_id: 'R-1', blueprint, ttl_secs: 1 }, await realPorts(folder));
  expect(ended).toMatchObject({
    status: 'failed',
    totals: { usage: { input_tokens: 1 }, cost_usd: 0.25, num_turns: 1 },
  });
  const program = join(mkdtempSync(join(folder, 'p-')), 'once');
  writeFileSync(program, '#!/bin/sh\nrm "$0"; echo \'{"u":{"input":100,"output":10}}\'; exit 75\n', {
    mode: 0o755,
  });
  const retry = { when: { exit_codes: [75] }, max_attempts: 2, backoff_secs: 0.1 };
  const once = oneStep({ argv: [program], output: { stats: { usage_ptr: '/u' } }, retry });
  const failed = await runFlow({ run_id: 'R-1', blueprint: once }, await realPorts(folder));
  expect(failed).toMatchObject({
    status: 'failed',
    steps: [{ attempt: 2, status: 'failed' }],
    totals: { usage: { total_tokens: 110 } },
  });
});

test('the run ends in time while a new attempt is not due', async () => {
  const { blueprint, starts } = flaky([busy(1), fine], { backoff_secs: 60 });
  const begun = performance.now();
  const ended = await runFlow({ run_id: 'R-1', blueprint, ttl_secs: 1 }, await realPorts(folder));
  expect(ended).toMatchObject({
    status: 'failed',
    error: { message: 'the run exceeded its time limit of 1 s' },
  });
  expect([starts(), performance.now() - begun < 20_000]).toEqual([1, true]);
});

test('a single attempt tells that and when another is asked for, and starts none', async () => {
  const ports = await realPorts(folder);
  const retry = { when: { exit_codes: [75] }, max_attempts: 4, backoff_secs: 10 };
  const result = await attempt(ports, { argv: ['sh', '-c', 'exit 75'], retry });
  expect(result.retry?.attempt).toBe(2);
  expect(Date.parse(result.retry!.not_before) - Date.parse(result.completed_at)).toBeGreaterThan(9000);
  const third = await attempt(ports, { argv: ['sh', '-c', 'exit 75'], retry }, { attempt: 3 });
  expect(Date.parse(third.retry!.not_before) - Date.parse(third.completed_at)).toBeGreaterThan(39_000);
  expect(await attempt(ports, { argv: ['sh', '-c', 'exit 75'], retry }, { attempt: 4 })).not.toHaveProperty(
    'retry',
  );
});

test('a final event of a stream mode can ask for it', async () => {
  const final = JSON.stringify({
    type: 'final',
    ok: false,
    content: { kind: 'inline', value: { code: 'overloaded' } },
  });
  const retry = { when: { ptr: '/code', equals: 'overloaded' }, max_attempts: 2 };
  const template = { argv: ['echo', final], stream_mode: 'ndjson_lines', retry };
  expect(await attempt(await realPorts(folder), template)).toMatchObject({
    ok: false,
    retry: { attempt: 2 },
  });
});

test('totals are summed over the steps of a run', async () => {
  const script = 'printf \'{"usage":{"input_tokens":%s,"output_tokens":1}}\' "$1"';
  const flow = {
    kind: 'fanout',
    items: { op: 'lit', value: [1, 2, 3] },
    bind: { op: 'path', at: '$.i' },
    body: { kind: 'step', ref: 'a', in: { op: 'path', at: '$.i' }, out: { op: 'path', at: '$.r' } },
    join: 'all',
    out: { op: 'path', at: '$.all' },
  };
  const document = shellAgents(
    { a: script, b: 'echo 1' },
    { kind: 'seq', children: [flow, step('b', 'x', '$.b')] },
  );
  const [first] = document.subprocesses as [JsonObject];
  first.output = { stats: { usage_ptr: '/usage' } };
  const ended = await runFlow({ run_id: 'R-1', blueprint: document }, await realPorts(folder));
  expect(ended.totals).toEqual({ usage: { input_tokens: 6, output_tokens: 3, total_tokens: 9 } });
});
