/** Which runner an agent has: the cascade inline, by reference, legacy binding, default, none. */
import type { Issue } from '../errors.ts';
import { error } from './issues.ts';
import { listed, quote } from './nearest.ts';
import type { Draft } from './read-blueprint.ts';
import type { AgentDef, Blueprint, Runner } from './schema.ts';

export type RunnerSource =
  | 'agent_inline'
  | 'agent_ref'
  | 'legacy_worker_binding'
  | 'blueprint_default'
  | 'none';

export type Resolution =
  | {
      readonly ok: true;
      readonly runner: Draft<Runner> | null;
      readonly source: RunnerSource;
      /** where the runner is written; null when there is none */
      readonly pointer: string | null;
      /** index in `runners`; null for an inline runner or none */
      readonly entry: number | null;
    }
  | { readonly ok: false; readonly issues: readonly Issue[] };

export type RunnerRegistry = Pick<Draft<Blueprint>, 'runners' | 'default_runner'>;
export type RunnerResolver = (agent: Draft<AgentDef>, pointer: string) => Resolution;

const NONE: Resolution = { ok: true, runner: null, source: 'none', pointer: null, entry: null };

/** A function that resolves the runner of an agent, given the agent's pointer; each look-up takes constant time. */
export function runnerResolver(registry: RunnerRegistry): RunnerResolver {
  const runners = registry.runners ?? [];
  const byName = new Map<string, Resolution>();
  const names: string[] = [];
  runners.forEach((def, i) => {
    if (def?.name === undefined || byName.has(def.name)) return;
    names.push(def.name);
    byName.set(
      def.name,
      def.runner === undefined
        ? { ok: false, issues: [] }
        : { ok: true, runner: def.runner, source: 'agent_ref', pointer: `/runners/${i}/runner`, entry: i },
    );
  });
  const declared = () => `declared runners: ${listed(names)}`;
  const byDefault = defaultRunner(registry.default_runner, byName, declared);

  return (agent, pointer) => {
    const ref = agent.runner_ref ?? undefined;
    const referenced = ref === undefined ? undefined : byName.get(ref);
    if (ref !== undefined && referenced === undefined) {
      const message = `bound agent resolution: runner_ref ${quote(ref)} of agent ${quote(agent.name ?? '')} is not declared; ${declared()}`;
      return { ok: false, issues: [error('dangling_reference', `${pointer}/runner_ref`, message)] };
    }
    if (agent.runner != null) {
      return {
        ok: true,
        runner: agent.runner,
        source: 'agent_inline',
        pointer: `${pointer}/runner`,
        entry: null,
      };
    }
    if (referenced) return referenced;
    if (agent.profile?.worker_binding != null) {
      return { ok: false, issues: [legacyBinding(agent.name ?? '', pointer)] };
    }
    return byDefault;
  };
}

function defaultRunner(
  ref: string | null | undefined,
  byName: ReadonlyMap<string, Resolution>,
  declared: () => string,
): Resolution {
  if (ref == null) return NONE;
  const found = byName.get(ref);
  if (found) return found.ok ? { ...found, source: 'blueprint_default' } : found;
  const message = `bound agent resolution: default_runner ${quote(ref)} is not declared; ${declared()}`;
  return { ok: false, issues: [error('dangling_reference', '/default_runner', message)] };
}

function legacyBinding(agent: string, pointer: string): Issue {
  const message = `agent ${quote(agent)}: profile.worker_binding stands for a ws_claude_code runner, which is not supported; remove worker_binding, or name a subprocess runner in runner or runner_ref`;
  return error('unsupported_field', `${pointer}/profile/worker_binding`, message);
}

/**
 * The runner of one agent by name. Not ok: the reference dangles or is declared twice, the agent has only the legacy
 * `worker_binding`, or there is no such agent.
 */
export function resolveRunner(
  blueprint: RunnerRegistry & Pick<Draft<Blueprint>, 'agents'>,
  name: string,
): Resolution {
  const agents = blueprint.agents ?? [];
  const i = agents.findIndex((agent) => agent?.name === name);
  const agent = agents[i];
  if (!agent)
    return { ok: false, issues: [error('dangling_reference', '/agents', `no agent ${quote(name)}`)] };
  const resolution = runnerResolver(blueprint)(agent, `/agents/${i}`);
  if (!resolution.ok) return resolution;
  const { entry } = resolution;
  if (entry === null) return resolution;
  const runner = blueprint.runners?.[entry]?.name ?? '';
  const second = blueprint.runners?.findIndex((def, k) => k > entry && def?.name === runner) ?? -1;
  if (second === -1) return resolution;
  const message = `duplicate runner name ${quote(runner)}; it is declared at /runners/${entry} already`;
  return { ok: false, issues: [error('duplicate_name', `/runners/${second}/name`, message)] };
}
