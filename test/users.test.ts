/**
 * Faults that people met with CLIs in functions, CI and workflows: every case without a level, and those of level
 * `handler` that need no platform, through `runAttempt` with real children and a real store.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { runAttempt } from '../lib/attempt.ts';
import { baseEnvironment } from '../lib/config.ts';
import { StepspawnError } from '../lib/errors.ts';
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
  resolvePointer,
  sha256,
  toDouble,
} from '../lib/json.ts';
import type { RunPorts } from '../lib/run.ts';
import { loadValue } from '../lib/settle.ts';
import { attemptKey } from '../lib/store/keys.ts';
import type { TaskResult } from '../lib/task.ts';
import { validate } from '../lib/validate.ts';
import { expectMatch, readCases } from './support/cases.ts';
import { oneStep } from './support/documents.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';
import { runningWith } from './support/processes.ts';

const folder = temporaryFolder();
const TEMPLATE_POINTER = '/subprocesses/0';

const cases = readCases('users.jsonl').filter(({ expect: expected, tags }) => {
  const level = isObject(expected) ? expected.level : undefined;
  return level === undefined || (level === 'handler' && Array.isArray(tags) && !tags.includes('logs'));
});

let hostEnv: string[] = [];
afterEach(() => {
  for (const name of hostEnv) delete process.env[name];
  hostEnv = [];
});

if (cases.length > 0) {
  describe('user cases', () => {
    test.each(cases.map((found) => [`${found.id}: ${found.fault}`, found] as const))(
      '%s',
      async (_title, found) => {
        const expected = found.expect as JsonObject;
        if (expected.phase === 'validate') await expectInvalid(found, expected);
        else await expectRun(found, expected);
      },
    );
  });
}

/** The document of a case: its template, its system prompt and model as the agent's profile. */
function documentOf({ template, payload }: JsonObject): JsonObject {
  const { timeout_ms, ...rest } = template as JsonObject;
  const { system, model } = payload as JsonObject;
  const limits: JsonObject =
    timeout_ms === undefined ? {} : { limits: { timeout_secs: toDouble(timeout_ms)! / 1000 } };
  const profile = {
    ...(system === undefined ? {} : { system_prompt: system }),
    ...(model === undefined ? {} : { model }),
  };
  return oneStep({ ...rest, ...limits }, {}, { profile });
}

async function expectInvalid(found: JsonObject, expected: JsonObject): Promise<void> {
  const { ok, issues } = await validate(documentOf(found));
  expect(ok).toBe(false);
  const errors = issues.filter(({ severity }) => severity === 'error');
  expect(errors.map(({ path, code }) => ({ pointer: path, code }))).toEqual(absolute(expected.errors));
}

function absolute(errors: JsonValue | undefined): JsonValue {
  const list = (errors ?? []) as { pointer: string; code: string }[];
  return list.map(({ pointer, code }) => ({ pointer: TEMPLATE_POINTER + pointer, code }));
}

interface Setting {
  readonly ports: RunPorts;
  readonly base: string;
  readonly task: Parameters<typeof runAttempt>[0];
}

async function expectRun(found: JsonObject, expected: JsonObject): Promise<void> {
  const payload = found.payload as JsonObject;
  const tags = found.tags as string[];
  const setting = await settingOf(found, payload);
  const { ports, task } = setting;
  const attempts = Array.isArray(payload.attempts) ? payload.attempts.map(Number) : [task.attempt];
  const calls = Number(payload.invoke ?? payload.repeat ?? 1);
  const begun = performance.now();
  const results: (TaskResult | StepspawnError)[] = [];
  for (const attempt of attempts) {
    for (let call = 0; call < calls; call++) {
      // a repeat is a new task each time, a further invoke the same request again
      const task_id = payload.repeat === undefined ? task.task_id : `${task.task_id}-${call}`;
      if (tags.includes('cancel'))
        setTimeout(() => void ports.store.create(attemptKey(task_id, attempt, 'cancel.json'), '{}'), 300);
      results.push(await answerOf({ ...task, task_id, attempt }, ports, payload));
    }
  }
  const took = performance.now() - begun;
  for (const result of results) await expectResult(result, expected, setting, tags);
  if (expected.within_ms !== undefined) expect(took).toBeLessThan(Number(expected.within_ms));
  if (expected.left !== undefined)
    expect(runningWith(`MSE_TASK_ID=${task.task_id}`)).toHaveLength(Number(expected.left));
  if (expected.runs !== undefined) expect(lines(join(setting.base, 'count'))).toBe(Number(expected.runs));
  await expectStored(expected.stored, ports);
  expect(bytesBelow(ports.scratch.dir)).toBe(0);
}

async function settingOf(found: JsonObject, payload: JsonObject): Promise<Setting> {
  const base = mkdtempSync(join(folder, 'case-'));
  const work_dir = join(base, 'work');
  mkdirSync(work_dir);
  const host = Object.entries((payload.host_env ?? {}) as Record<string, string>);
  for (const [name, value] of host) process.env[name] = value;
  hostEnv = host.map(([name]) => name);
  const ports = await realPorts(base, { base_env: baseEnvironment(process.env) });
  const task_id = typeof payload.task_id === 'string' ? payload.task_id : `T-${sha256(base).slice(0, 16)}`;
  const input = await inputOf(payload, ports);
  const attempt = toDouble(payload.attempt) ?? 1;
  return {
    ports,
    base,
    task: { task_id, attempt, agent: 'w', blueprint: documentOf(found), ...input, context: { work_dir } },
  };
}

/** The prompt inline, or by reference where the case gives one. */
async function inputOf({ prompt = '', prompt_ref }: JsonObject, { store }: RunPorts) {
  if (prompt_ref === undefined) return { in: prompt };
  const key = 'inputs/prompt.txt';
  await store.create(key, String(prompt));
  return { in_ref: { key, sha256: sha256(String(prompt)) } };
}

async function answerOf(
  task: Setting['task'],
  ports: RunPorts,
  { remaining_ms }: JsonObject,
): Promise<TaskResult | StepspawnError> {
  const left = toDouble(remaining_ms);
  try {
    return await runAttempt(
      task,
      left === undefined ? ports : { ...ports, platform_deadline: Date.now() + left },
    );
  } catch (error) {
    if (error instanceof StepspawnError) return error;
    throw error;
  }
}

async function expectResult(
  result: TaskResult | StepspawnError,
  expected: JsonObject,
  { ports }: Setting,
  tags: string[],
): Promise<void> {
  if (expected.phase === 'spawn') {
    expect(result).toBeInstanceOf(StepspawnError);
    const issues = (result as StepspawnError).issues.map(({ path, code }) => ({ pointer: path, code }));
    expect(issues).toEqual(absolute(expected.errors));
    return;
  }
  if (result instanceof StepspawnError) throw result;
  if (expected.ok !== undefined)
    expect({ ok: result.ok, message: result.message }).toMatchObject({ ok: expected.ok });
  if (expected.timed_out !== undefined) expect(result.reason === 'timed_out').toBe(expected.timed_out);
  if (tags.includes('cancel')) expect([result.ok, result.reason]).toEqual([false, 'cancelled']);
  if (expected.exit !== undefined) expect(result.exit.code).toBe(Number(expected.exit));
  if (expected.signal !== undefined) expect(result.exit.signal).toBe(expected.signal);
  if (expected.events !== undefined) {
    const events = await ports.store.read(attemptKey(result.task_id, result.attempt, 'events.ndjson'));
    expect(String(events?.body).trim().split('\n')).toHaveLength(Number(expected.events));
  }
  if (expected.inline_limit_bytes !== undefined) {
    expect(Buffer.byteLength(JSON.stringify(result))).toBeLessThan(Number(expected.inline_limit_bytes));
  }
  expectValue(await loadValue(ports.store, result), expected);
}

function expectValue(value: JsonValue, expected: JsonObject): void {
  const text =
    typeof value === 'string' ? value : isObject(value) && typeof value.raw === 'string' ? value.raw : '';
  if (expected.value !== undefined) expectMatch(value, expected.value);
  if (expected.value_match !== undefined) expect(text).toMatch(new RegExp(String(expected.value_match)));
  if (expected.value_length !== undefined) expect(text).toHaveLength(Number(expected.value_length));
  if (expected.value_raw_bytes !== undefined)
    expect(Buffer.byteLength(text)).toBe(Number(expected.value_raw_bytes));
  if (Array.isArray(expected.value_keys))
    expect(Object.keys(value as JsonObject).sort()).toEqual([...expected.value_keys].sort());
  for (const [pointer, wanted] of Object.entries((expected.value_has ?? {}) as JsonObject)) {
    expectMatch(resolvePointer(value, pointer), wanted);
  }
}

/** `{"<task>/<attempt>": value}` as it lies in the store. */
async function expectStored(stored: JsonValue | undefined, { store }: RunPorts): Promise<void> {
  for (const [id, value] of Object.entries((stored ?? {}) as JsonObject)) {
    const [task = '', attempt] = id.split('/');
    const found = await store.read(attemptKey(task, Number(attempt), 'result.json'));
    expectMatch((parseJson(String(found?.body)) as JsonObject).value, value);
  }
}

function lines(file: string): number {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0;
}

/** Bytes of all files below a folder: nothing of an attempt stays in the scratch. */
function bytesBelow(dir: string): number {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}
