import { expect, test } from 'vitest';
import { type RunnerSource, resolveRunner } from '../../lib/blueprint/runner.ts';
import type { AgentDef } from '../../lib/blueprint/schema.ts';

const template = (name: string) => ({ backend: 'subprocess' as const, template: name });
const runners = [
  { name: 'r1', runner: template('one') },
  { name: 'r2', runner: template('two') },
];

test.each<[string, Partial<AgentDef>, RunnerSource, string | null]>([
  [
    'an inline runner wins',
    { runner: template('own'), runner_ref: 'r2' },
    'agent_inline',
    '/agents/0/runner',
  ],
  ['then runner_ref', { runner_ref: 'r2' }, 'agent_ref', '/runners/1/runner'],
  ['then default_runner', {}, 'blueprint_default', '/runners/0/runner'],
])('%s', (_what, agent, source, pointer) => {
  const agents = [{ name: 'a', kind: 'subprocess' as const, ...agent }];
  const resolution = resolveRunner({ agents, runners, default_runner: 'r1' }, 'a');
  expect(resolution).toMatchObject({ ok: true, source, pointer });
});

test('with nothing declared there is no runner', () => {
  const resolution = resolveRunner({ agents: [{ name: 'a', kind: 'subprocess' }] }, 'a');
  expect(resolution).toMatchObject({ ok: true, runner: null, source: 'none' });
});

test.each<[string, object, string]>([
  [
    'a dangling runner_ref, even beside an inline runner',
    { runner: template('own'), runner_ref: 'x' },
    '/agents/0/runner_ref',
  ],
  [
    'worker_binding, which would beat default_runner',
    { profile: { worker_binding: 'w' } },
    '/agents/0/profile/worker_binding',
  ],
  ['a runner that is declared twice', { runner_ref: 'r2' }, '/runners/2/name'],
])('%s is refused', (_what, agent, path) => {
  const agents = [{ name: 'a', kind: 'subprocess' as const, ...agent }];
  const doubled = [...runners, { name: 'r2', runner: template('three') }];
  const resolution = resolveRunner({ agents, runners: doubled, default_runner: 'r1' }, 'a');
  expect(resolution).toMatchObject({ ok: false, issues: [{ path }] });
});

test('messages name the reference and what is declared', () => {
  const resolution = resolveRunner(
    { agents: [{ name: 'a', kind: 'subprocess' }], runners, default_runner: 'zz' },
    'a',
  );
  expect(resolution).toMatchObject({
    ok: false,
    issues: [
      { message: "bound agent resolution: default_runner 'zz' is not declared; declared runners: [r1, r2]" },
    ],
  });
});
