import { describe, expect, test } from 'vitest';
import { type Compiled, compile } from '../../lib/blueprint/compile.ts';
import { type JsonObject, type JsonValue, parseJson } from '../../lib/json.ts';

function compiled(members: JsonObject): Compiled {
  const answer = compile({ id: 'x', flow: { kind: 'seq', children: [] }, ...members });
  if (!answer.ok) throw new Error(JSON.stringify(answer.issues));
  return answer.compiled;
}

const AGENT = { name: 'a', kind: 'subprocess', runner: { backend: 'subprocess', template: 't' } };
const TEMPLATE = { name: 't', argv: ['cat'] };

test('a minimal template agent has every field, absent ones as null', () => {
  const { agents } = compiled({ agents: [AGENT], subprocesses: [TEMPLATE] });
  expect({ ...agents }).toEqual({
    a: {
      name: 'a',
      pointer: '/agents/0',
      worker: {
        path: 'template',
        template: 't',
        pointer: '/subprocesses/0',
        argv: ['cat'],
        stdin: null,
        env: {},
        cwd: null,
        cwd_pointer: '/subprocesses/0/cwd',
        output: null,
        system_prompt: null,
        system_prompt_pointer: null,
        model: null,
        tools: [],
        tools_csv: '',
        stream_mode: null,
        limits: null,
        secrets: null,
        retry: null,
        files: null,
        artifacts: null,
      },
      ctx_tiers: [],
      policy: null,
    },
  });
});

test('overrides win over the profile; nulls are dropped; environment names are sorted', () => {
  const runner = {
    backend: 'subprocess',
    template: 't',
    overrides: { model: '', tools: ['X', 'y z'], cwd: '/o' },
  };
  const { agents } = compiled({
    runners: [{ name: 'r', runner }],
    agents: [
      {
        name: 'a',
        kind: 'subprocess',
        runner_ref: 'r',
        profile: { system_prompt: ' ', model: 'm', tools: ['p'] },
      },
    ],
    subprocesses: [
      {
        ...TEMPLATE,
        stdin: '{prompt}',
        env: { b: '1', B: '2' },
        cwd: '/t',
        output: { format: null, result_ptr: '/r', stats: { usage_ptr: '/u', model_ptr: null } },
        limits: { timeout_secs: parseJson('2.0'), grace_secs: null },
        secrets: { KEY: 'k' },
      },
    ],
  });
  expect(agents.a?.worker).toEqual({
    path: 'template',
    template: 't',
    pointer: '/subprocesses/0',
    argv: ['cat'],
    stdin: '{prompt}',
    env: { B: '2', b: '1' },
    cwd: '/o',
    cwd_pointer: '/runners/0/runner/overrides/cwd',
    output: { result_ptr: '/r', stats: { usage_ptr: '/u' } },
    system_prompt: ' ',
    system_prompt_pointer: '/agents/0/profile/system_prompt',
    model: '',
    tools: ['X', 'y z'],
    tools_csv: 'X,y z',
    stream_mode: null,
    limits: { timeout_secs: 2 },
    secrets: { KEY: 'k' },
    retry: null,
    files: null,
    artifacts: null,
  });
  const worker = agents.a?.worker;
  expect(worker?.path === 'template' && Object.keys(worker.env)).toEqual(['B', 'b']);
});

test('an empty list of override tools does not revoke those of the profile', () => {
  const runner = { backend: 'subprocess', template: 't', overrides: { tools: [] } };
  const { agents } = compiled({
    agents: [{ ...AGENT, runner, profile: { tools: ['p'] } }],
    subprocesses: [TEMPLATE],
  });
  expect(agents.a?.worker).toMatchObject({ tools: ['p'], tools_csv: 'p' });
});

test('an agent without a runner is started by its spec', () => {
  const { agents } = compiled({
    agents: [{ name: 'a', kind: 'subprocess', spec: { program: 'cat', args: ['-n'] } }],
  });
  expect(agents.a?.worker).toEqual({
    path: 'spec',
    pointer: '/agents/0/spec',
    program: 'cat',
    args: ['-n'],
    use_stdin: true,
    stream_mode: null,
  });
});

describe('context', () => {
  test("the agent's context covers its meta_ref; the document's default comes last; others are left out", () => {
    const meta = (fields: JsonObject) => ({ ...AGENT, name: JSON.stringify(fields), meta: fields });
    const all: JsonObject[] = [
      { meta_ref: 'm', ctx: { a: 1 } },
      { meta_ref: 'm' },
      { meta_ref: 'n', ctx: { a: 2 } },
      { ctx: 'no' },
      {},
    ];
    const { agents } = compiled({
      agents: all.map(meta),
      subprocesses: [TEMPLATE],
      metas: [
        { name: 'm', ctx: { a: 0, b: 0 } },
        { name: 'n', ctx: 'no' },
      ],
      default_agent_ctx: { z: 1 },
    });
    expect(Object.values(agents).map(({ ctx_tiers }) => ctx_tiers)).toEqual([
      [{ a: 1, b: 0 }, { z: 1 }],
      [{ a: 0, b: 0 }, { z: 1 }],
      [{ a: 2 }, { z: 1 }],
      [{ z: 1 }],
      [{ z: 1 }],
    ]);
  });

  test("the agent's policy replaces the document's", () => {
    const own = { include: ['work_dir'] };
    const agents = [AGENT, { ...AGENT, name: 'b', meta: { context_policy: own } }];
    const document = { agents, subprocesses: [TEMPLATE], default_context_policy: { exclude: ['work_dir'] } };
    const { a, b } = compiled(document).agents;
    expect([a?.policy, b?.policy]).toEqual([{ exclude: ['work_dir'] }, own]);
  });
});

test('the rest of the document is handed on, numbers as written', () => {
  const { id, flow, metas, default_init_ctx, default_run_ttl_secs } = compiled({
    metas: [{ name: 'm', ctx: { n: parseJson('1.0') } }],
    default_init_ctx: parseJson('{"big": 9007199254740993}'),
    metadata: { default_run_ttl_secs: parseJson('60.0') },
  });
  expect(JSON.stringify({ id, flow, metas, default_init_ctx, default_run_ttl_secs })).toBe(
    '{"id":"x","flow":{"kind":"seq","children":[]},"metas":{"m":{"n":1.0}},"default_init_ctx":{"big":9007199254740993},"default_run_ttl_secs":60}',
  );
  expect(Object.keys(compiled({ default_init_ctx: null }))).not.toContain('default_init_ctx');
});

test('names of Object.prototype are names', () => {
  const names = ['__proto__', 'constructor', 'toString'];
  const document: JsonValue = parseJson(
    JSON.stringify({
      id: 'x',
      flow: { kind: 'seq', children: [] },
      agents: names.map((name) => ({
        ...AGENT,
        name,
        runner: { backend: 'subprocess', template: name },
        meta: { meta_ref: name },
      })),
      subprocesses: names.map((name) => ({ ...TEMPLATE, name })),
      metas: names.map((name) => ({ name, ctx: { is: name } })),
    }),
  );
  const answer = compile(document);
  const agents = answer.ok ? Object.values(answer.compiled.agents) : [];
  expect(
    agents.map(({ name, worker, ctx_tiers }) => [
      name,
      worker.path === 'template' && worker.template,
      ctx_tiers,
    ]),
  ).toEqual(names.map((name) => [name, name, [{ is: name }]]));
  expect(answer.ok && Object.keys(answer.compiled.metas)).toEqual(names);
});

test('files are sorted by path, and artifacts stay as they are written', () => {
  const files = { b: '{prompt}', 'a/x': '', '~/c': '1' };
  const artifacts: JsonObject[] = [{ glob: 'b' }, { glob: 'a', required: true }];
  const { agents } = compiled({ agents: [AGENT], subprocesses: [{ ...TEMPLATE, files, artifacts }] });
  const worker = agents.a?.worker;
  expect(worker).toMatchObject({ files, artifacts });
  expect(worker?.path === 'template' && Object.keys(worker.files ?? {})).toEqual(['a/x', 'b', '~/c']);
});
