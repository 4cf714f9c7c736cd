/** Checks of agents: kind, runner, template, and what they declare in vain. */
import type { Issue } from '../errors.ts';
import { isObject } from '../json.ts';
import type { Binding, Subject } from './bindings.ts';
import { argumentProblems, nulProblems } from './check-text.ts';
import { error, warning } from './issues.ts';
import { listed, quote } from './nearest.ts';
import type { Draft } from './read-blueprint.ts';
import type { SubprocessOverrides } from './schema.ts';
import { checkSpec } from './spec.ts';

export function* checkAgents(subject: Subject): Generator<Issue> {
  const dropped = subject.blueprint.strategy?.strict_kind === false;
  let declared: string | undefined;
  for (const binding of subject.bindings) {
    const { agent, pointer, resolution } = binding;
    const name = quote(agent.name ?? '');
    // the name is handed to the child in MSE_CTX_AGENT
    for (const { code, message } of nulProblems(agent.name ?? ''))
      yield error(code, `${pointer}/name`, `agent ${name}: ${message}`);
    if (agent.kind !== undefined && agent.kind !== 'subprocess') {
      const message = `agent ${name} is of kind ${quote(agent.kind)}; only kind 'subprocess' can run here`;
      yield dropped
        ? warning(
            'unsupported_kind',
            `${pointer}/kind`,
            `${message}, so it is left out (strict_kind is false)`,
          )
        : error('unsupported_kind', `${pointer}/kind`, message);
      continue;
    }
    if (agent.verdict != null) {
      yield error(
        'unsupported_field',
        `${pointer}/verdict`,
        `agent ${name}: verdict is not supported; use output.ok_from of the template`,
      );
    }
    if (!resolution.ok) {
      // a dangling default_runner is one mistake, not one for each agent
      for (const issue of resolution.issues) if (issue.path !== '/default_runner') yield issue;
    } else if (agent.kind !== undefined) {
      declared ??= listed([...subject.named.subprocesses.keys()].sort());
      yield* checkRunner(binding, declared);
    }
    yield* checkUnused(binding);
  }
}

function* checkRunner({ agent, pointer, resolution, template }: Binding, declared: string): Generator<Issue> {
  if (!resolution.ok) return;
  const { runner, pointer: at } = resolution;
  const name = agent.name ?? '';
  if (!runner) yield* checkSpec(agent.spec, `${pointer}/spec`, name);
  else if (runner.backend === 'subprocess') {
    if (template === undefined && runner.template !== undefined) {
      const message = `agent ${quote(name)}: template ${quote(runner.template)} is not declared; declared templates: ${declared}`;
      yield error('dangling_reference', `${at}/template`, message);
    }
    if (resolution.source === 'agent_inline') {
      yield* checkOverrides(runner.overrides, `${at}`, `agent ${quote(name)}`);
    }
  } else if (runner.backend !== undefined) {
    const message = `agent ${quote(name)}: backend ${quote(runner.backend)} does not match kind 'subprocess'; use backend 'subprocess' with a template`;
    yield error('unsupported_backend', `${at}/backend`, message);
  }
}

/** The overrides of every runner in the registry, used or not. */
export function* checkRunners({ blueprint }: Subject): Generator<Issue> {
  for (const [i, def] of (blueprint.runners ?? []).entries()) {
    if (def?.runner?.backend !== 'subprocess') continue;
    yield* checkOverrides(def.runner.overrides, `/runners/${i}/runner`, `runner ${quote(def.name ?? '')}`);
  }
}

function* checkOverrides(
  overrides: Draft<SubprocessOverrides> | undefined,
  pointer: string,
  subject: string,
): Generator<Issue> {
  for (const { code, message } of argumentProblems(overrides?.cwd ?? '')) {
    yield error(code, `${pointer}/overrides/cwd`, `${subject} overrides.cwd: ${message}`);
  }
}

function* checkUnused({ agent, pointer, resolution }: Binding): Generator<Issue> {
  const name = quote(agent.name ?? '');
  const unused = (field: string, why: string): Issue =>
    warning(
      'ignored_field',
      `${pointer}/${field}`,
      `agent ${name}: ${field.replaceAll('/', '.')} is ignored: ${why}`,
    );
  const { profile } = agent;
  if (agent.lints != null) yield unused('lints', 'this product has no such lints');
  if (profile?.effort != null)
    yield unused('profile/effort', 'no placeholder carries it; write it into argv or env');
  if (agent.meta?.ctx != null && !isObject(agent.meta.ctx))
    yield unused('meta/ctx', 'a context must be an object');
  if (!resolution.ok) return;
  if (resolution.runner) {
    if (agent.spec != null) yield unused('spec', 'the agent has a runner');
    if (profile?.worker_binding != null) yield unused('profile/worker_binding', 'the agent has a runner');
    return;
  }
  const why = 'an agent without a runner gets only the directive';
  if (profile?.system_prompt) yield unused('profile/system_prompt', why);
  if (profile?.model != null) yield unused('profile/model', why);
  if (profile?.tools && profile.tools.length > 0) yield unused('profile/tools', why);
}
