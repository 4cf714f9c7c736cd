import { describe, expect, test } from 'vitest';
import { AgentDef, AgentKind, Blueprint, Runner, SubprocessDef } from '../../lib/blueprint/schema.ts';
import { checkSchema } from '../../lib/blueprint/schema-issues.ts';
import { type JsonValue, parseJson } from '../../lib/json.ts';

type Schema = Parameters<typeof checkSchema>[0];
const EMPTY_FLOW = { kind: 'seq', children: [] };

/** `code path` and message of every issue. */
const issues = (schema: Schema, value: JsonValue): string[][] =>
  checkSchema(schema, value).map(({ code, path, message }) => [`${code} ${path}`, message]);
const codes = (schema: Schema, value: JsonValue): string[] => issues(schema, value).map(([code]) => code!);

describe('messages', () => {
  test('name the field that is missing and what it must be', () => {
    expect(issues(SubprocessDef, { name: 't' })).toEqual([
      ['missing_field /argv', "missing field 'argv': expected a list"],
    ]);
    expect(issues(AgentDef, { name: 'a' })).toEqual([
      [
        'missing_field /kind',
        `missing field 'kind': expected one of "lua", "rust_fn", "agent_block", "subprocess", "operator"`,
      ],
    ]);
  });

  test('name an unknown field at its own path, with the nearest and all known names', () => {
    expect(issues(SubprocessDef, { name: 't', argv: [], stdinn: 'x', 'a/b': 1 })).toEqual([
      [
        'unknown_field /stdinn',
        "unknown field 'stdinn'; did you mean 'stdin'?; known: name, argv, stdin, env, cwd, output, stream_mode, limits, secrets, retry, files, artifacts",
      ],
      [
        'unknown_field /a~1b',
        "unknown field 'a/b'; known: name, argv, stdin, env, cwd, output, stream_mode, limits, secrets, retry, files, artifacts",
      ],
    ]);
  });

  test('know the fields of the variant that a tag chooses', () => {
    const [[, message] = []] = issues(Runner, { backend: 'subprocess', template: 't', overides: {} });
    expect(message).toBe(
      "unknown field 'overides'; did you mean 'overrides'?; known: backend, template, overrides",
    );
  });

  test('say what was expected and what came, cut to a readable length', () => {
    const value = { name: 't', argv: 'x', stdin: 5, cwd: 'x'.repeat(1000), env: { A: null }, output: [] };
    expect(issues(SubprocessDef, value)).toEqual([
      ['wrong_type /argv', 'expected a list, got string "x"'],
      ['wrong_type /stdin', 'expected a string, got number 5'],
      ['wrong_type /env/A', 'expected a string, got null'],
      ['wrong_type /output', 'expected an object, got a list'],
    ]);
    expect(issues(AgentKind, 'x'.repeat(1000))[0]![1]!.length).toBeLessThan(250);
  });

  test('list the closed set where a tag is unknown or missing', () => {
    const tags = 'one of "ws_operator", "ws_claude_code", "agent_block_in_process", "subprocess"';
    expect(issues(Runner, { backend: 'nope', template: 't' })).toEqual([
      ['invalid_value /backend', `expected ${tags}, got string "nope"`],
    ]);
    expect(issues(Runner, {})).toEqual([
      ['missing_field /backend', `missing field 'backend': expected ${tags}`],
    ]);
  });

  test('closed sets of strings have codes of their own', () => {
    expect(
      codes(SubprocessDef, { name: 't', argv: [], stream_mode: 'x', output: { format: 'xml' } }),
    ).toEqual(['bad_format /output/format', 'unknown_stream_mode /stream_mode']);
  });
});

describe('values', () => {
  test('a number kept as written is a number, never an object', () => {
    const document = parseJson('{"name": "t", "argv": [1.0], "env": 1.0, "output": 1.0, "limits": 2.0}');
    expect(issues(SubprocessDef, document)).toEqual([
      ['wrong_type /argv/0', 'expected a string, got number 1.0'],
      ['wrong_type /env', 'expected an object, got number 1.0'],
      ['wrong_type /output', 'expected an object, got number 1.0'],
      ['wrong_type /limits', 'expected an object, got number 2.0'],
    ]);
  });

  test('limits are numbers above 0 in any spelling, bytes whole', () => {
    const limits = '{"timeout_secs": 1.50, "silence_secs": 2.0, "stdout_bytes": 1e3, "grace_secs": null}';
    const template = (text: string) => ({ name: 't', argv: ['x'], limits: parseJson(text) });
    expect(SubprocessDef.parse(template(limits)).limits).toEqual({
      timeout_secs: 1.5,
      silence_secs: 2,
      stdout_bytes: 1000,
      grace_secs: null,
    });
    expect(
      codes(SubprocessDef, template('{"timeout_secs": 0, "stderr_bytes": 1.5, "grace_secs": "3"}')),
    ).toEqual([
      'invalid_value /limits/timeout_secs',
      'wrong_type /limits/grace_secs',
      'wrong_type /limits/stderr_bytes',
    ]);
  });

  test('null stands for absent only where the type is optional', () => {
    const optional = {
      name: 't',
      argv: ['x'],
      stdin: null,
      cwd: null,
      output: null,
      stream_mode: null,
      limits: null,
    };
    expect(codes(SubprocessDef, optional)).toEqual([]);
    const defaulted = {
      agents: null,
      runners: null,
      subprocesses: null,
      metas: null,
      strategy: null,
      hints: null,
    };
    expect(codes(Blueprint, { id: 'x', flow: EMPTY_FLOW, ...defaulted }).sort()).toEqual(
      Object.keys(defaulted)
        .map((field) => `wrong_type /${field}`)
        .sort(),
    );
  });

  test('names of Object.prototype are unknown fields and plain environment names', () => {
    const document = parseJson(
      '{"name": "t", "argv": ["x"], "__proto__": {}, "constructor": 1, "env": {"__proto__": 5}}',
    );
    expect(codes(SubprocessDef, document)).toEqual([
      'wrong_type /env/__proto__',
      'unknown_field /__proto__',
      'unknown_field /constructor',
    ]);
  });

  test.each([
    ['0.1.0', true],
    ['0.1.27-rc.1+build', true],
    ['0.2.0', false],
    ['1.1.0', false],
    ['0.1', false],
    ['v0.1.0', false],
  ])('schema_version %s: known %s', (schema_version, ok) => {
    const found = issues(Blueprint, { id: 'x', flow: EMPTY_FLOW, schema_version });
    expect(found.length === 0).toBe(ok);
    if (!ok) expect(found[0]![0]).toBe('invalid_value /schema_version');
  });
});
