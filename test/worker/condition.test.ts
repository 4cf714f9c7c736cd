/** Conditions of `ok_from` and `retry`, and what a program reports about its own failure. */
import { describe, expect, it, test } from 'vitest';
import type { Condition, SubprocessOutput } from '../../lib/blueprint/output-schema.ts';
import type { Outcome } from '../../lib/task.ts';
import type { Ended } from '../../lib/worker/decision.ts';
import { normalize } from '../../lib/worker/normalize.ts';

function outcome(stdout: string, output: SubprocessOutput, more: Partial<Ended> = {}): Outcome {
  const exit = { code: 0, signal: null };
  return normalize({
    exit,
    model: null,
    cause: null,
    ...more,
    output,
    stdout: Buffer.from(stdout),
    stderr: '',
  });
}

const DOCUMENT =
  '{"is_error":false,"status":"completed","code":1.0,"none":null,"text":"","list":[],"map":{"a":1},"deep":{"x":["a","b"]}}';

describe('a condition', () => {
  it.each<[Condition]>([
    [{ ptr: '/is_error', equals: false }],
    [{ ptr: '/code', equals: 1 }],
    [{ ptr: '/none', equals: null }],
    [{ ptr: '/deep', equals: { x: ['a', 'b'] } }],
    [{ ptr: '/status', not_equals: 'failed' }],
    [{ ptr: '/none', not_equals: 1 }],
    [{ ptr: '/status', in: ['stop', 'completed'] }],
    [{ ptr: '/status', matches: '^comp' }],
    [{ ptr: '/text', empty: true }],
    [{ ptr: '/none', empty: true }],
    [{ ptr: '/list', empty: true }],
    [{ ptr: '/not/there', empty: true }],
    [{ ptr: '/map', empty: false }],
    [{ ptr: '/is_error', empty: false }],
    [{ exit_codes: [0, 2] }],
    [{ all: [{ exit_codes: [0] }, { ptr: '/is_error', equals: false }] }],
    [
      {
        any: [
          { ptr: '/not/there', equals: 1 },
          { ptr: '/code', equals: 1 },
        ],
      },
    ],
    [{ not: { ptr: '/status', equals: 'failed' } }],
    [{ not: { exit_codes: [3] } }],
    // one part that surely does not hold decides, in any order
    [
      {
        not: {
          all: [
            { ptr: '/code', equals: 2 },
            { ptr: '/not', equals: 1 },
          ],
        },
      },
    ],
    [
      {
        not: {
          all: [
            { ptr: '/not', equals: 1 },
            { ptr: '/code', equals: 2 },
          ],
        },
      },
    ],
  ])('%j holds', (ok_from) => {
    expect(outcome(DOCUMENT, { ok_from })).toMatchObject({
      ok: true,
      reason: null,
      message: null,
      warnings: [],
    });
  });

  it.each<[Condition, string, string]>([
    [
      { ptr: '/is_error', equals: true },
      'ok_not_true',
      "ok_from '/is_error' is false (a boolean), expected true",
    ],
    [{ ptr: '/code', equals: '1' }, 'ok_not_true', `ok_from '/code' is 1.0 (a number), expected "1"`],
    [{ ptr: '/status', not_equals: 'completed' }, 'ok_not_true', `expected anything but "completed"`],
    [
      { ptr: '/status', in: ['a', 'b', 3] },
      'ok_not_true',
      `is "completed" (a string), expected "a", "b" or 3`,
    ],
    [{ ptr: '/status', matches: '^fail' }, 'ok_not_true', 'expected a text that matches /^fail/'],
    [
      { ptr: '/code', matches: '1' },
      'ok_not_true',
      "'/code' is 1.0 (a number), expected a text that matches /1/",
    ],
    [{ ptr: '/text', empty: false }, 'ok_not_true', `'/text' is "" (a string), expected something`],
    [{ ptr: '/not', empty: false }, 'ok_not_true', "'/not' is not there, expected something"],
    [{ ptr: '/map', empty: true }, 'ok_not_true', "'/map' is an object with the key a, expected nothing"],
    [
      { ptr: '/not', equals: 1 },
      'ok_missing',
      "ok_from '/not' not found in stdout JSON, which is an object with",
    ],
    [{ ptr: '/not', not_equals: 1 }, 'ok_missing', "ok_from '/not' not found"],
    [
      {
        not: {
          any: [
            { ptr: '/code', equals: 2 },
            { ptr: '/not', equals: 1 },
          ],
        },
      },
      'ok_not_true',
      "'/not' not found",
    ],
    [
      {
        not: {
          all: [
            { ptr: '/code', equals: 1 },
            { ptr: '/not', equals: 1 },
          ],
        },
      },
      'ok_missing',
      "'/not' not found",
    ],
    [{ not: { ptr: '/not', equals: 1 } }, 'ok_missing', "ok_from '/not' not found"],
    [{ exit_codes: [2, 3] }, 'ok_not_true', 'ok_from exit code 0 is not 2 or 3'],
    [
      { not: { ptr: '/status', equals: 'completed' } },
      'ok_not_true',
      `'/status' holds {"equals":"completed"}, which must not be`,
    ],
    [
      {
        any: [
          { ptr: '/code', equals: 2 },
          { ptr: '/not', equals: 3 },
        ],
      },
      'ok_not_true',
      "ok_from none of 2 holds: '/code' is 1.0 (a number), expected 2; '/not' not found",
    ],
    [
      { all: [{ exit_codes: [0] }, { ptr: '/code', equals: 2 }] },
      'ok_not_true',
      "'/code' is 1.0 (a number), expected 2",
    ],
  ])('%j does not', (ok_from, reason, message) => {
    const read = outcome(DOCUMENT, { ok_from });
    expect(read).toMatchObject({ ok: false, reason });
    expect(read.message).toContain(message);
  });

  it('decides alone unless it names exit codes', () => {
    const exit = { code: 3, signal: null };
    const equals: Condition = { ptr: '/code', equals: 1 };
    expect(outcome(DOCUMENT, { ok_from: equals }, { exit })).toMatchObject({
      ok: true,
      warnings: ['exit code 3 ignored: ok_from its condition decides'],
    });
    expect(outcome(DOCUMENT, { ok_from: { all: [equals, { exit_codes: [0] }] } }, { exit })).toMatchObject({
      ok: false,
      reason: 'exit_nonzero',
      message: 'exit code 3; ok_from: exit code 3 is not 0',
    });
    expect(outcome(DOCUMENT, { ok_from: { exit_codes: [0, 3] } }, { exit })).toMatchObject({
      ok: true,
      warnings: [],
    });
    expect(outcome('text', { ok_from: { exit_codes: [0, 3] } }, { exit })).toMatchObject({
      ok: true,
      value: { raw: 'text' },
    });
  });

  it('tells the exit code first, whatever stdout holds', () => {
    const ok_from: Condition = { all: [{ ptr: '/code', equals: 2 }, { exit_codes: [0] }] };
    const exit = { code: 145, signal: null };
    for (const stdout of ['', 'Error: 401', DOCUMENT])
      expect(outcome(stdout, { format: 'json', ok_from }, { exit }).reason).toBe('exit_nonzero');
    expect(outcome('', { format: 'json', ok_from }).reason).toBe('stdout_not_json');
  });

  it('never lets a child pass that died or was ended', () => {
    const ok_from: Condition = { ptr: '/code', equals: 1 };
    const killed = outcome(DOCUMENT, { ok_from }, { exit: { code: null, signal: 'SIGKILL' } });
    expect(killed).toMatchObject({ ok: false, reason: 'signalled' });
    expect(outcome(DOCUMENT, { ok_from }, { cause: 'silent' })).toMatchObject({
      ok: false,
      reason: 'silent',
    });
  });

  it('on a value needs JSON', () => {
    expect(outcome('no', { ok_from: { ptr: '/a', empty: true } })).toMatchObject({
      ok: false,
      reason: 'stdout_not_json',
    });
  });

  it('gives up on a pattern that takes too long, in bounded time', () => {
    const stdout = JSON.stringify({ text: `${'a'.repeat(40)}b` });
    const begun = performance.now();
    const read = outcome(stdout, { ok_from: { ptr: '/text', matches: '^(a+)+$' } });
    expect(read).toMatchObject({ ok: false, reason: 'ok_not_true' });
    expect(read.message).toContain('patterns may take 250 ms together');
    const many = Array.from({ length: 100 }, () => ({ ptr: '/text', matches: '^(a+)+$' }));
    for (const ok_from of [{ any: many }, { not: { ptr: '/text', matches: '^(a+)+$' } }])
      expect(outcome(stdout, { ok_from })).toMatchObject({ ok: false, reason: 'ok_not_true' });
    expect(outcome(stdout, { ok_from: { any: many } }).message?.length).toBeLessThan(1500);
    expect(performance.now() - begun).toBeLessThan(8000);
  });
});

describe('what the program reports', () => {
  const output: SubprocessOutput = {
    result_ptr: '/result',
    ok_from: { all: [{ exit_codes: [0] }, { ptr: '/is_error', equals: false }] },
    error: { message_ptr: '/result', class_ptr: '/api_error_status' },
  };

  it('is part of a failure, its class may be a number', () => {
    const stdout = '{"is_error":true,"api_error_status":429,"result":"slow down"}';
    expect(outcome(stdout, output, { exit: { code: 1, signal: null } })).toMatchObject({
      ok: false,
      reason: 'exit_nonzero',
      message: 'exit code 1; ok_from: exit code 1 is not 0; the program reports: 429: slow down',
      reported_error: { message: 'slow down', class: '429' },
    });
  });

  it('is not told of a result that is ok', () => {
    expect(outcome('{"is_error":false,"result":"fine"}', output)).not.toHaveProperty('reported_error');
  });

  it('is bounded', () => {
    const stdout = JSON.stringify({ is_error: true, result: '\\'.repeat(1_000_000) });
    const { message, reported_error } = outcome(stdout, output);
    expect(reported_error?.message).toMatch(/… \(1000000 characters\)$/);
    expect(JSON.stringify([message, reported_error]).length).toBeLessThan(20_000);
  });

  it('is left out where it is not there', () => {
    const read = outcome('{"is_error":true,"result":{"a":1}}', output);
    expect(read).toMatchObject({ message: "ok_from '/is_error' is true (a boolean), expected false" });
    expect(read).not.toHaveProperty('reported_error');
  });
});

describe('retry.when', () => {
  const retry_when: Condition = { any: [{ ptr: '/status', in: [429, 529] }, { exit_codes: [75] }] };
  const output: SubprocessOutput = { format: 'json', ok_from: 'exit_code' };

  test.each<[string, number, Partial<Ended>, boolean]>([
    ['{"status":429}', 1, {}, true],
    ['{"status":401}', 1, {}, false],
    ['{}', 1, {}, false],
    ['not JSON', 75, {}, true],
    ['not JSON', 1, {}, false],
    ['{"status":429}', 0, {}, false],
    ['{"status":429}', 1, { cause: 'timed_out' }, true],
    ['{"status":429}', 1, { cause: 'cancelled' }, false],
  ])('of %s with exit code %i, %j: %s', (stdout, code, more, again) => {
    const read = outcome(stdout, output, { exit: { code, signal: null }, retry_when, ...more });
    expect(read.retry ?? false).toBe(again);
  });
});
