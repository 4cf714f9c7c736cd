import { describe, expect, test } from 'vitest';
import { compile } from '../../lib/blueprint/compile.ts';
import type { Issue } from '../../lib/errors.ts';
import { type JsonObject, type JsonValue, parseJson } from '../../lib/json.ts';

const AGENT = { name: 'a', kind: 'subprocess', runner: { backend: 'subprocess', template: 't' } };

/** A valid document with one agent, in which given members replace the usual ones. */
const document = (members: JsonObject): JsonObject => ({
  id: 'x',
  flow: { kind: 'seq', children: [] },
  agents: [AGENT],
  subprocesses: [{ name: 't', argv: ['cat'] }],
  ...members,
});
const withTemplate = (members: JsonObject): JsonObject =>
  document({ subprocesses: [{ name: 't', argv: ['cat'], ...members }] });
const withAgent = (members: JsonObject): JsonObject => document({ agents: [{ ...AGENT, ...members }] });

function issuesOf(value: JsonValue): readonly Issue[] {
  const answer = compile(value);
  return answer.ok ? answer.warnings : answer.issues;
}
/** `code path`, a warning with `?` before it. */
const codes = (value: JsonValue): string[] =>
  issuesOf(value).map(({ code, path, severity }) => `${severity === 'warning' ? '?' : ''}${code} ${path}`);
const message = (value: JsonValue): string => issuesOf(value)[0]?.message ?? '';

describe('templates', () => {
  test.each<[JsonObject, string[]]>([
    [
      { argv: ['x', '{promt}'], stdin: '{sytem}', env: { A: '{modell}' }, cwd: '{x}' },
      [
        'unknown_placeholder /subprocesses/0/argv/1',
        'unknown_placeholder /subprocesses/0/stdin',
        'unknown_placeholder /subprocesses/0/env/A',
        'unknown_placeholder /subprocesses/0/cwd',
      ],
    ],
    [{ argv: [] }, ['empty_argv /subprocesses/0/argv']],
    [{ argv: [''] }, ['empty_argv /subprocesses/0/argv/0']],
    [
      { argv: ['a\0'], stdin: 'a\0', env: { A: '\0' }, cwd: '\0' },
      ['nul_byte /subprocesses/0/argv/0', 'nul_byte /subprocesses/0/env/A', 'nul_byte /subprocesses/0/cwd'],
    ],
    [
      {
        env: {
          '': 'a',
          'a=b': 'a',
          'a\0': 'a',
          '{prompt}': 'a',
          MSE_X: 'a',
          'a/b': '{bad}',
          mse_x: '',
          '{A}': '',
        },
      },
      [
        'bad_env_name /subprocesses/0/env/',
        'bad_env_name /subprocesses/0/env/a=b',
        'bad_env_name /subprocesses/0/env/a\0',
        'bad_env_name /subprocesses/0/env/{prompt}',
        'reserved_env /subprocesses/0/env/MSE_X',
        'unknown_placeholder /subprocesses/0/env/a~1b',
      ],
    ],
    [
      { env: { KEY: 'x' }, secrets: { KEY: 'k', MSE_K: 'k', OTHER: '' } },
      [
        'duplicate_name /subprocesses/0/secrets/KEY',
        'reserved_env /subprocesses/0/secrets/MSE_K',
        'invalid_value /subprocesses/0/secrets/OTHER',
      ],
    ],
    [{ stream_mode: 'ndjson_lines', output: {} }, ['output_with_stream_mode /subprocesses/0/stream_mode']],
    [
      {
        output: {
          result_ptr: 'result',
          ok_from: '/a~2',
          stats: { usage_ptr: 'u', model_ptr: '/m~', num_turns_ptr: '' },
        },
      },
      [
        'bad_pointer /subprocesses/0/output/result_ptr',
        'bad_pointer /subprocesses/0/output/ok_from',
        'bad_pointer /subprocesses/0/output/stats/usage_ptr',
        'bad_pointer /subprocesses/0/output/stats/model_ptr',
        'bad_pointer /subprocesses/0/output/stats/num_turns_ptr',
      ],
    ],
    [{ output: { ok_from: 'status' } }, ['bad_ok_from /subprocesses/0/output/ok_from']],
    [
      { output: { select: { where: { type: 'x' }, after_last: { '/~': 1 }, ptr: 'y', join: '' } } },
      [
        'bad_pointer /subprocesses/0/output/select/where/type',
        'bad_pointer /subprocesses/0/output/select/after_last/~1~0',
        'bad_pointer /subprocesses/0/output/select/ptr',
        'invalid_value /subprocesses/0/output/select/join',
      ],
    ],
    [{ output: { select: {} } }, ['invalid_value /subprocesses/0/output/select']],
    [
      {
        output: {
          select: { answer: { where: {} }, 'a/b': { where: {}, take: 'first' } },
          result_ptr: '/anwser/text',
          ok_from: { all: [{ ptr: '/a~1b/x', equals: 1 }, { not: { ptr: '/b', empty: true } }] },
          stats: { cost_ptr: '/cost' },
          error: { message_ptr: '/answer/message', class_ptr: '/class' },
        },
        retry: { when: { ptr: '/end', equals: 1 }, max_attempts: 2 },
      },
      [
        'dangling_reference /subprocesses/0/output/result_ptr',
        'dangling_reference /subprocesses/0/output/ok_from/all/1/not/ptr',
        'dangling_reference /subprocesses/0/output/stats/cost_ptr',
        'dangling_reference /subprocesses/0/output/error/class_ptr',
        'dangling_reference /subprocesses/0/retry/when/ptr',
      ],
    ],
    [
      {
        output: {
          ok_from: {
            all: [
              {},
              { ptr: '/a' },
              { equals: 1 },
              { ptr: '/a', equals: 1, in: [] },
              { ptr: '/a', exit_codes: [] },
              { ptr: 'a', matches: '(' },
              { any: [] },
            ],
          },
        },
      },
      [
        'bad_condition /subprocesses/0/output/ok_from/all/0',
        'bad_condition /subprocesses/0/output/ok_from/all/1',
        'bad_condition /subprocesses/0/output/ok_from/all/2',
        'bad_condition /subprocesses/0/output/ok_from/all/3',
        'bad_condition /subprocesses/0/output/ok_from/all/3/in',
        'bad_condition /subprocesses/0/output/ok_from/all/4',
        'bad_condition /subprocesses/0/output/ok_from/all/4/exit_codes',
        'bad_pointer /subprocesses/0/output/ok_from/all/5/ptr',
        'bad_pattern /subprocesses/0/output/ok_from/all/5/matches',
        'bad_condition /subprocesses/0/output/ok_from/all/6/any',
      ],
    ],
    [
      {
        output: { select: { where: { '/a': [] }, take: 'most' }, ok_from: 5, error: { msg: '/a' } },
        retry: { when: { ptr: '/a', equal: 1 }, max_attempts: 1 },
      },
      [
        'wrong_type /subprocesses/0/output/select/where/~1a',
        'invalid_value /subprocesses/0/output/select/take',
        'wrong_type /subprocesses/0/output/ok_from',
        'unknown_field /subprocesses/0/output/error/msg',
        'unknown_field /subprocesses/0/retry/when/equal',
        'invalid_value /subprocesses/0/retry/max_attempts',
        'bad_condition /subprocesses/0/retry/when',
      ],
    ],
    [
      { output: { select: { wher: { '/a': 1 }, take: 'last' } } },
      [
        'missing_field /subprocesses/0/output/select/where',
        'unknown_field /subprocesses/0/output/select/wher',
      ],
    ],
    [{ output: { select: { answer: 'last' } } }, ['wrong_type /subprocesses/0/output/select/answer']],
    [
      {
        output: {
          format: 'jsonl',
          select: { a: { where: { '/n': parseJson('1.0'), '/s': 's', '/b': true, '/0': null } } },
          ok_from: { all: [{ ptr: '/a', equals: parseJson('12345678901234567890') }, { exit_codes: [0] }] },
        },
      },
      [],
    ],
    [{ output: { result_ptr: '/a~1b/m~0n', ok_from: 'exit_code' }, stdin: '{"a": ${HOME}}' }, []],
    [
      {
        files: { '~/.a/b.json': '{"x": "{prompt}"}', 'a/b': '{bad} {worse}', 'a b/ö': '\0' },
        artifacts: [{ glob: '**/*.{md,txt}', required: true }, { glob: '~/.a/[!x]?' }],
        limits: { artifact_bytes: 1 },
      },
      [
        'unknown_placeholder /subprocesses/0/files/a~1b',
        'unknown_placeholder /subprocesses/0/files/a~1b',
        '?data_in_json_text /subprocesses/0/files/~0~1.a~1b.json',
      ],
    ],
    [
      { artifacts: [{ glob: '/a' }, { glob: 'a' }, { glob: '../a' }, { glob: '' }, { glob: '{prompt}/x' }] },
      ['0/glob', '2/glob', '3/glob', '4/glob'].map((at) => `bad_glob /subprocesses/0/artifacts/${at}`),
    ],
    [
      { artifacts: [{ glob: 'a', require: true }, {}] },
      ['unknown_field', 'missing_field'].map(
        (code, i) => `${code} /subprocesses/0/artifacts/${i}/${i ? 'glob' : 'require'}`,
      ),
    ],
    [{ limits: { artifact_bytes: 0 } }, ['invalid_value /subprocesses/0/limits/artifact_bytes']],
  ])('%j', (members, expected) => {
    expect(codes(withTemplate(members))).toEqual(expected);
  });

  test.each([
    ['', 'empty; name a file below the directory of the child'],
    ['/etc/x', 'absolute; write it relative'],
    ['~', 'only ~/… names HOME'],
    ['~root/x', 'only ~/… names HOME'],
    ['~/', 'an empty segment'],
    ['a//b', 'an empty segment'],
    ['a/', 'an empty segment'],
    ['./a', "the segment '.'"],
    ['a/../b', "the segment '..'"],
    ['~/..', "the segment '..'"],
    ['a\0b', 'a NUL byte at offset 1'],
    ['\ud800', 'half a surrogate pair'],
    ['{prompt}.md', "'{prompt}' looks like a placeholder"],
    [`a/${'é'.repeat(128)}`, 'is 256 bytes long, a name can have 255'],
    [`${'a/'.repeat(2047)}xx`, '4096 bytes long, a path can have 4095'],
  ])('the file %j is refused', (path, why) => {
    const [issue, ...more] = issuesOf(withTemplate({ files: { [path]: '' } }));
    expect([issue?.code, issue?.path, more]).toEqual([
      'bad_file_path',
      `/subprocesses/0/files/${path.replaceAll('~', '~0').replaceAll('/', '~1')}`,
      [],
    ]);
    expect(issue?.message).toContain(why);
    expect(issue?.message).toContain("template 't' files['");
  });

  test('a name is either a file or a folder', () => {
    const files = {
      a: '',
      'a/b': '',
      'c/d/e': '',
      c: '',
      '~/a/b': '',
      'c/d': '',
      'c/d/f': '',
      constructor: '',
      __proto__x: '',
    };
    expect(
      issuesOf(withTemplate({ files })).map(({ path, message: text }) => [
        path.slice(22),
        text.replace(/^.*?: /, ''),
      ]),
    ).toEqual([
      ['a~1b', "below 'a', which is a file; a name is either a file or a folder (used by agent 'a')"],
      ['c', "a folder of 'c/d/e'; a name is either a file or a folder (used by agent 'a')"],
      ['c~1d', "a folder of 'c/d/e'; a name is either a file or a folder (used by agent 'a')"],
    ]);
  });

  test('a message names the template and who uses it', () => {
    const agents = ['a', 'b', 'c'].map((name) => ({ ...AGENT, name }));
    expect(message(document({ agents, subprocesses: [{ name: 't', argv: [] }] }))).toBe(
      "template 't' argv: no program is named; the first element of argv must be one (used by agent 'a' and 2 more)",
    );
  });

  test('unused templates and runners are checked too', () => {
    const unused = document({
      subprocesses: [
        { name: 't', argv: ['cat'] },
        { name: 'u', argv: ['{evil}'] },
      ],
      runners: [{ name: 'r', runner: { backend: 'subprocess', template: 't', overrides: { cwd: '{bad}' } } }],
    });
    expect(codes(unused)).toEqual([
      'unknown_placeholder /runners/0/runner/overrides/cwd',
      'unknown_placeholder /subprocesses/1/argv/0',
    ]);
  });
});

describe('agents', () => {
  test.each<[JsonObject, string[]]>([
    [{ kind: 'lua' }, ['unsupported_kind /agents/0/kind']],
    [{ runner: { backend: 'ws_operator', variant: 'v' } }, ['unsupported_backend /agents/0/runner/backend']],
    [
      { runner: { backend: 'subprocess', template: 'nope' } },
      ['dangling_reference /agents/0/runner/template'],
    ],
    [
      { runner: { backend: 'subprocess', template: 't', overrides: { cwd: '{bad}\0' } } },
      ['unknown_placeholder /agents/0/runner/overrides/cwd', 'nul_byte /agents/0/runner/overrides/cwd'],
    ],
    [{ runner_ref: 'r' }, ['dangling_reference /agents/0/runner_ref']],
    [{ meta: { meta_ref: 'm' } }, ['dangling_reference /agents/0/meta/meta_ref']],
    [{ verdict: { channel: 'body', values: [] } }, ['unsupported_field /agents/0/verdict']],
    [
      { spec: {}, lints: [], profile: { worker_binding: 'w', effort: 'low' }, meta: { ctx: 5 } },
      [
        '?ignored_field /agents/0/lints',
        '?ignored_field /agents/0/profile/effort',
        '?ignored_field /agents/0/meta/ctx',
        '?ignored_field /agents/0/spec',
        '?ignored_field /agents/0/profile/worker_binding',
      ],
    ],
    [
      { runner: null, profile: { worker_binding: 'w' } },
      ['unsupported_field /agents/0/profile/worker_binding'],
    ],
    [{ runner: null }, ['missing_field /agents/0/spec']],
    [{ runner: null, spec: {} }, ['missing_field /agents/0/spec/program']],
    [{ runner: null, spec: 'cat' }, ['wrong_type /agents/0/spec']],
    [
      { runner: null, spec: { program: '', args: [1, 'a'], use_stdin: null, stream_mode: 'x', argz: [] } },
      [
        'invalid_value /agents/0/spec/program',
        'wrong_type /agents/0/spec/args/0',
        'wrong_type /agents/0/spec/use_stdin',
        'unknown_stream_mode /agents/0/spec/stream_mode',
        'unknown_field /agents/0/spec/argz',
      ],
    ],
    [{ runner: null, spec: { program: 'a', args: ['b', 'c\0'] } }, ['nul_byte /agents/0/spec/args/1']],
    [
      { runner: null, spec: { program: 'a' }, profile: { system_prompt: 's', model: 'm', tools: ['t'] } },
      [
        '?ignored_field /agents/0/profile/system_prompt',
        '?ignored_field /agents/0/profile/model',
        '?ignored_field /agents/0/profile/tools',
      ],
    ],
  ])('%j', (members, expected) => {
    expect(codes(withAgent(members))).toEqual(expected);
  });

  test('strict_kind false leaves an agent of another kind out, with a warning', () => {
    const agents = [AGENT, { name: 'l', kind: 'lua' }];
    const answer = compile(document({ agents, strategy: { strict_kind: false } }));
    expect(answer.ok && Object.keys(answer.compiled.agents)).toEqual(['a']);
    expect(answer.ok && answer.warnings.map(({ code }) => code)).toEqual(['unsupported_kind']);
  });

  test('a dangling default_runner is one issue, however many agents it leaves without a runner', () => {
    const agents = ['a', 'b'].map((name) => ({ name, kind: 'subprocess' }));
    expect(codes(document({ agents, default_runner: 'zz' }))).toEqual(['dangling_reference /default_runner']);
  });
});

describe('the document', () => {
  test('names are unique in each list', () => {
    const twice = (item: JsonObject) => [item, { ...item }];
    const doubled = document({
      agents: twice(AGENT),
      subprocesses: twice({ name: 't', argv: ['cat'] }),
      runners: twice({ name: 'r', runner: { backend: 'subprocess', template: 't' } }),
      metas: twice({ name: 'm', ctx: {} }),
    });
    expect(codes(doubled)).toEqual([
      'duplicate_name /agents/1/name',
      'duplicate_name /subprocesses/1/name',
      'duplicate_name /runners/1/name',
      'duplicate_name /metas/1/name',
    ]);
  });

  test('fields that would change the meaning are refused, others named in a warning', () => {
    const ignored = {
      operators: [{}],
      projection_placement: {},
      default_operator_kind: 'x',
      degradation_policy: { a: 1 },
      blueprint_ref_includes: ['x'],
      default_agent_kind: 'lua',
      spawner_hints: {},
      check_policy: 'warn',
      hints: { per_agent: { a: {} }, global: 1 },
    };
    expect(codes(document(ignored))).toEqual([
      '?ignored_field /operators',
      '?ignored_field /default_operator_kind',
      '?ignored_field /degradation_policy',
      '?ignored_field /blueprint_ref_includes',
      '?ignored_field /default_agent_kind',
      '?ignored_field /spawner_hints',
      '?ignored_field /check_policy',
      '?ignored_field /hints/per_agent',
      '?ignored_field /hints/global',
    ]);
    expect(
      codes(document({ audits: [1], check_policy: 'strict', spawner_hints: { layers: ['x'] } })),
    ).toEqual([
      'unsupported_field /audits',
      'unsupported_field /check_policy',
      'unsupported_field /spawner_hints/layers',
    ]);
    expect(codes(document({ audits: [], operators: [], hints: {}, check_policy: null }))).toEqual([]);
  });

  test('authoring references are refused wherever they stand, once', () => {
    const refs = document({
      agents: [{ $agent_md: 'a.md' }, { ...AGENT, profile: { system_prompt: { $file: 'p' } } }],
      subprocesses: [{ name: 't', argv: ['cat'], stdin: { $file: 's' } }],
      metas: [{ name: 'm', ctx: { deep: [{ $file: 'x' }] } }],
    });
    expect(codes(refs)).toEqual([
      'unsupported_reference /agents/0',
      'unsupported_reference /agents/1/profile/system_prompt',
      'unsupported_reference /subprocesses/0/stdin',
      'unsupported_reference /metas/0/ctx/deep/0',
    ]);
  });

  test('contexts that are not objects are named in a warning', () => {
    expect(codes(document({ default_agent_ctx: 'x', metas: [{ name: 'm', ctx: null }] }))).toEqual([
      '?ignored_field /metas/0/ctx',
      '?ignored_field /default_agent_ctx',
    ]);
  });
});

describe('the flow', () => {
  const step = (ref: string, value: JsonValue = 1) => ({
    kind: 'step',
    ref,
    in: { op: 'lit', value },
    out: { op: 'path', at: '$.x' },
  });
  const path = { op: 'path', at: '$.i' };

  test('every step names an agent, at any depth', () => {
    const flow: JsonObject = {
      kind: 'seq',
      children: [
        step('a'),
        { kind: 'branch', cond: path, then: step('b'), else: step('a') },
        { kind: 'loop', counter: path, cond: path, max: 1, body: step('c') },
        { kind: 'try', body: step('d'), catch: { kind: 'seq', children: [step('e')] } },
        { kind: 'fanout', items: path, bind: path, join: 'all', out: path, body: step('f') },
      ],
    };
    expect(codes(document({ flow }))).toEqual([
      'dangling_reference /flow/children/1/then/ref',
      'dangling_reference /flow/children/2/body/ref',
      'dangling_reference /flow/children/3/body/ref',
      'dangling_reference /flow/children/3/catch/children/0/ref',
      'dangling_reference /flow/children/4/body/ref',
    ]);
    expect(codes(document({ flow, strategy: { strict_refs: false } }))).toEqual([]);
  });

  test('a step does not run an agent that is left out', () => {
    const agents = [{ name: 'l', kind: 'lua' }];
    expect(message(document({ flow: step('l'), agents, strategy: { strict_kind: false } }))).toContain(
      'left out',
    );
    const flow = document({ flow: step('l'), agents, strategy: { strict_kind: false } });
    expect(codes(flow)).toEqual(['?unsupported_kind /agents/0/kind', 'dangling_reference /flow/ref']);
  });

  test('$step_meta of a literal names an entry of metas', () => {
    const metas = [{ name: 'm', ctx: {} }];
    const flow = (ref: string) => document({ metas, flow: step('a', { $step_meta: { ref } }) });
    expect(codes(flow('m'))).toEqual([]);
    expect(codes(flow('n'))).toEqual(['dangling_reference /flow/in/value/$step_meta/ref']);
  });

  test('a write target is a path expression', () => {
    expect(codes(document({ flow: { ...step('a'), out: { op: 'lit', value: 1 } } }))).toEqual([
      'invalid_value /flow/out',
    ]);
  });
});

describe('all issues at once', () => {
  test('errors of shape do not hide those of meaning', () => {
    const broken = document({
      bogus: 1,
      flow: { kind: 'seq', children: [{ kind: 'step', ref: 'ghost', in: { op: 'lit', value: 1 }, out: 5 }] },
      agents: [{ ...AGENT, runner: 5 }, { ...AGENT, name: 'b', kind: 'shell' }, 7, { ...AGENT, name: 'a' }],
      subprocesses: [
        { name: 't', argv: ['x', 5, '{evil}'], stdinn: '', stdin: 5, output: { result_ptr: 'x' } },
      ],
    });
    expect(codes(broken)).toEqual([
      'wrong_type /flow/children/0/out',
      'unknown_field /bogus',
      'wrong_type /agents/0/runner',
      'invalid_value /agents/1/kind',
      'wrong_type /agents/2',
      'wrong_type /subprocesses/0/argv/1',
      'wrong_type /subprocesses/0/stdin',
      'unknown_field /subprocesses/0/stdinn',
      'duplicate_name /agents/3/name',
      'unknown_placeholder /subprocesses/0/argv/2',
      'bad_pointer /subprocesses/0/output/result_ptr',
      'dangling_reference /flow/children/0/ref',
    ]);
  });

  test('no more than a thousand errors are listed, and a last one says that there are more', () => {
    const many = withTemplate({ argv: ['{evil}'.repeat(50_000)] });
    const issues = issuesOf(many);
    expect(issues).toHaveLength(1001);
    expect(issues.at(-1)).toMatchObject({ code: 'too_many_issues', severity: 'error' });
  });

  test('warnings do not crowd out errors', () => {
    const agents = Array.from({ length: 1500 }, (_, i) => ({ ...AGENT, name: `a${i}`, spec: {} }));
    const answer = compile(
      document({ agents: [...agents, { ...AGENT, name: 'a0' }], subprocesses: [{ name: 't', argv: [] }] }),
    );
    expect(answer.ok).toBe(false);
    expect(codes(document({ agents, subprocesses: [{ name: 't', argv: [] }] })).at(-2)).toBe(
      'empty_argv /subprocesses/0/argv',
    );
  });

  test('a list of a million wrong elements is refused in bounded time and memory', () => {
    const ones = Array.from({ length: 1_000_000 }, () => 1);
    expect(codes(document({ agents: ones }))).toHaveLength(1001);
    expect(codes(withTemplate({ argv: ones }))).toEqual(['wrong_type /subprocesses/0/argv/0']);
    expect(codes(document({ flow: { kind: 'seq', children: ones } }))).toEqual([
      'wrong_type /flow/children/0',
    ]);
    expect(codes(withAgent({ runner: null, spec: { program: 'x', args: ones } }))).toEqual([
      'wrong_type /agents/0/spec/args/0',
    ]);
    const env = Object.fromEntries(ones.map((one, i) => [`k${i}`, one]));
    expect(codes(withTemplate({ env }))).toHaveLength(1001);
  });

  test('nesting over 127 levels is refused before anything recurses', () => {
    const deep = parseJson(`${'{"kind":"seq","children":['.repeat(5000)}${']}'.repeat(5000)}`, 20_000);
    const value = parseJson(`${'['.repeat(5000)}${']'.repeat(5000)}`, 20_000);
    expect(codes(document({ flow: deep })).map((code) => code.slice(0, 8))).toEqual(['too_deep']);
    expect(codes(document({ default_init_ctx: value })).map((code) => code.slice(0, 8))).toEqual([
      'too_deep',
    ]);
  });

  test('a large document gets the issues that a small one gets', () => {
    const padding = Array.from({ length: 600 }, (_, i) => ({ ...AGENT, name: `p${i}` }));
    const wrong = { name: 'w', kind: 'shell', runner: { backend: 'subprocess' }, x: 1 };
    const strip = (path: string) => path.replace(/^\/agents\/\d+/, '/agents/n');
    const found = (agents: JsonValue[]) =>
      issuesOf(document({ agents })).map(({ path, message }) => [strip(path), message]);
    expect(found([...padding, wrong])).toEqual(found([wrong]));
  });
});
