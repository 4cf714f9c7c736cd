import { describe, expect, it } from 'vitest';
import type { SubprocessOutput } from '../../lib/blueprint/output-schema.ts';
import type { JsonValue } from '../../lib/json.ts';
import type { ExitStatus, Outcome } from '../../lib/task.ts';
import { type ChildOutput, normalize } from '../../lib/worker/normalize.ts';

const PASSED: ExitStatus = { code: 0, signal: null };
const STRICT: SubprocessOutput = { format: 'json' };

function outcome(stdout: string | Uint8Array, more: Partial<ChildOutput> = {}): Outcome {
  const bytes = typeof stdout === 'string' ? Buffer.from(stdout) : stdout;
  return normalize({
    stdout: bytes,
    stderr: '',
    exit: PASSED,
    output: null,
    model: null,
    cause: null,
    ...more,
  });
}

function parseError(stdout: string): string {
  const { value, ok, reason } = outcome(stdout, { output: STRICT });
  expect({ ok, reason }).toEqual({ ok: false, reason: 'stdout_not_json' });
  return (value as { parse_error: string }).parse_error;
}

describe('what stdout is', () => {
  it('is the JSON document, with every digit', () => {
    expect(JSON.stringify(outcome('{"a":1.0,"b":9007199254740993}').value)).toBe(
      '{"a":1.0,"b":9007199254740993}',
    );
  });

  it('is text with its leading white space otherwise', () => {
    expect(outcome('  plain\u0085\n\u00a0', { stderr: ' e\n' })).toEqual({
      ok: true,
      reason: null,
      message: null,
      value: { raw: '  plain', stderr: ' e\n' },
      stats: { worker_kind: 'subprocess', adapter_data: { exit_code: 0 } },
      warnings: [],
    });
  });

  it.each([
    ['white space of Unicode around it', '\u0085\u00a0\u2003{}\u3000', {}],
    ['one byte-order mark before it', '\ufeff{}', {}],
    ['white space and one byte-order mark', '\n\ufeff {}', {}],
    [
      'keys of the prototype',
      '{"__proto__":1,"constructor":2}',
      JSON.parse('{"__proto__":1,"constructor":2}'),
    ],
  ])('is JSON with %s', (_, stdout, value) => {
    expect(outcome(stdout, { output: STRICT })).toMatchObject({ ok: true, value });
  });

  it('is not JSON after two byte-order marks, which stay in raw', () => {
    expect(outcome('\ufeff\ufeff{}').value).toEqual({ raw: '\ufeff\ufeff{}', stderr: '' });
  });

  it('is decoded with U+FFFD for every bad sequence', () => {
    expect(outcome(Buffer.from([0x61, 0xff, 0xe2, 0x82, 0x62])).value).toEqual({
      raw: 'a\ufffd\ufffdb',
      stderr: '',
    });
  });
});

describe('the verdict', () => {
  const exit3: ExitStatus = { code: 3, signal: null };
  const killed: ExitStatus = { code: null, signal: 'SIGKILL' };
  const byOk: SubprocessOutput = { ok_from: '/ok', result_ptr: '/r' };

  it('is the pointer alone, and a warning tells of the exit code', () => {
    expect(outcome('{"ok":true,"r":1}', { exit: exit3, output: byOk })).toMatchObject({
      ok: true,
      value: 1,
      warnings: ['exit code 3 ignored: ok_from /ok decides'],
    });
  });

  it.each([
    ['signalled', { exit: killed }, 'killed by SIGKILL (out of memory?)'],
    ['timed_out', { exit: killed, cause: 'timed_out', detail: 'after 2 s' }, 'timed out after 2 s'],
    ['cancelled', { cause: 'cancelled', stderr: 'bye\n' }, 'cancelled; stderr ends with: bye'],
  ] as const)('is never ok when %s', (reason, more, message) => {
    expect(outcome('{"ok":true,"r":1}', { output: byOk, ...more })).toMatchObject({
      ok: false,
      reason,
      message,
      value: 1,
      warnings: [],
    });
  });

  it('says when a child that timed out was never heard of', () => {
    const { message } = outcome('', { cause: 'timed_out', exit: killed, output: STRICT });
    expect(message).toBe('timed out; no output was seen at all');
  });

  it.each<[string, string, SubprocessOutput, ExitStatus, string]>([
    ['exit_nonzero', 'x', STRICT, exit3, 'exit code 3; stdout says: x'],
    ['exit_nonzero', '{"a":1}', { result_ptr: '/r' }, exit3, 'exit code 3'],
    ['exit_nonzero', '{"r":"API Error"}', { result_ptr: '/r' }, exit3, 'exit code 3; stdout says: API Error'],
    [
      'result_missing',
      '{"a":1}',
      { result_ptr: '/r' },
      PASSED,
      "result_ptr '/r' not found in stdout JSON, which is an object with the key a",
    ],
    [
      'result_missing',
      '[1]',
      { result_ptr: '/length' },
      PASSED,
      "result_ptr '/length' not found in stdout JSON, which is a list of 1 item",
    ],
    [
      'ok_missing',
      '{}',
      { ok_from: '/constructor' },
      PASSED,
      "ok_from '/constructor' not found in stdout JSON, which is an empty object",
    ],
    [
      'ok_not_true',
      '{"ok":"true"}',
      { ok_from: '/ok' },
      PASSED,
      `ok_from '/ok' is "true" (a string), not the boolean true`,
    ],
    ['ok_not_true', '{"ok":false}', { ok_from: '/ok' }, PASSED, "ok_from '/ok' is false"],
    [
      'ok_not_true',
      '{"ok":1.0}',
      { ok_from: '/ok' },
      PASSED,
      "ok_from '/ok' is 1.0 (a number), not the boolean true",
    ],
    [
      'stdout_not_json',
      '',
      { ok_from: '/ok' },
      exit3,
      "ok_from '/ok' cannot be evaluated: stdout is empty, expected one JSON document",
    ],
  ])('is %s for %s with %o', (reason, stdout, output, exit, message) => {
    expect(outcome(stdout, { output, exit })).toMatchObject({ ok: false, reason, message });
  });

  it('keeps the parsed document and stderr beside the error of a missing result', () => {
    expect(outcome('{"a":1}', { output: { result_ptr: '/r' }, stderr: 'e' }).value).toEqual({
      error: "result_ptr '/r' not found in stdout JSON",
      raw: { a: 1 },
      stderr: 'e',
    });
  });

  it('takes null for a result', () => {
    expect(outcome('{"r":null}', { output: { result_ptr: '/r' } })).toMatchObject({ ok: true, value: null });
  });
});

describe('the hint of a parse error', () => {
  it.each([
    ['starting up\n{"result":1}', 'a JSON document starts at line 2'],
    [
      '{"a":1}\n{"b":2}\n{"c":3}\n',
      '3 JSON documents, one per line: use format "jsonl" and select the one that counts',
    ],
    ['{"result":1}\n\u001b[0m', 'escape character U+001B at position 13 (line 2)'],
    ['\u001b[1m{}', 'NO_COLOR=1'],
    ['```json\n{}\n```', 'Markdown code fence'],
    ['  \n', 'stdout holds only white space'],
  ])('for %j says: %s', (stdout, hint) => {
    expect(parseError(stdout)).toContain(hint);
    expect(outcome(stdout, { output: STRICT }).message).toContain(hint);
  });

  it.each([
    ['[ lines', '[1,2\n'.repeat(1_000_000)],
    ['lines that open and never close', `x\n${'{"a":\n'.repeat(150_000)}`],
    ['JSON lines', '{"a":1}\n'.repeat(1_000_000)],
    ['prose', 'hello '.repeat(10_000_000)],
    ['white space', `x${' '.repeat(10_000_000)}y`],
  ])('comes in time for much of %s', (_, stdout) => {
    const started = performance.now();
    parseError(stdout);
    expect(performance.now() - started).toBeLessThan(3000);
  });
});

describe('stats', () => {
  const output: SubprocessOutput = { stats: { usage_ptr: '/u', model_ptr: '/m', num_turns_ptr: '/n' } };
  const stats = (document: string) => outcome(document, { output, model: 'declared' }).stats;

  it('take the first spelling that holds a usable number', () => {
    expect(
      stats('{"u":{"input_tokens":null,"prompt_tokens":5,"completion_tokens":2},"m":"m1","n":3}'),
    ).toEqual({
      worker_kind: 'subprocess',
      model: 'm1',
      num_turns: 3,
      usage: { input_tokens: 5, output_tokens: 2, total_tokens: 7 },
      adapter_data: {
        exit_code: 0,
        usage_raw: { input_tokens: null, prompt_tokens: 5, completion_tokens: 2 },
      },
    });
  });

  it('leave out what is no whole number in integer spelling', () => {
    expect(stats('{"u":{"input_tokens":1.0,"output_tokens":-1,"total_tokens":"5"},"m":1,"n":1e3}')).toEqual({
      worker_kind: 'subprocess',
      model: 'declared',
      adapter_data: { exit_code: 0 },
    });
  });

  it('saturate', () => {
    const { usage, num_turns } = stats(
      '{"u":{"input_tokens":9007199254740993,"output_tokens":99999999999999999999},"n":4294967297}',
    );
    const max = Number.MAX_SAFE_INTEGER;
    expect({ usage, num_turns }).toEqual({
      usage: { input_tokens: max, output_tokens: max, total_tokens: max },
      num_turns: 4294967297,
    });
  });

  it('replace a large usage by its head', () => {
    const usage: JsonValue = { total_tokens: 1, note: 'é'.repeat(5000) };
    const whole = JSON.stringify({ exit_code: 0, usage_raw: usage });
    expect(stats(JSON.stringify({ u: usage })).adapter_data).toEqual({
      truncated: true,
      size_bytes: Buffer.byteLength(whole),
      head: whole.slice(0, 1024),
    });
  });
});
