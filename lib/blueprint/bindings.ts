/** What the checks and the baking share: names looked up once, and the template each agent is bound to. */
import { quote } from './nearest.ts';
import type { Draft } from './read-blueprint.ts';
import { type Resolution, runnerResolver } from './runner.ts';
import type { AgentDef, Blueprint } from './schema.ts';

export interface Binding {
  readonly agent: Draft<AgentDef>;
  readonly pointer: string;
  readonly resolution: Resolution;
  /** index of the template that the agent's runner names; undefined: none, or not declared */
  readonly template: number | undefined;
}

/** A document, or what is left of an ill-shaped one, with its names looked up. */
export interface Subject {
  readonly blueprint: Draft<Blueprint>;
  readonly bindings: readonly Binding[];
  /** index of the first element of a name, per list */
  readonly named: Readonly<Record<NamedList, ReadonlyMap<string, number>>>;
  /** ` (used by agent 'a' and 2 more)`, or nothing for a template that no agent uses */
  readonly usedBy: (template: number) => string;
}

export type NamedList = 'agents' | 'subprocesses' | 'runners' | 'metas';

export function bindBlueprint(blueprint: Draft<Blueprint>): Subject {
  const named = {
    agents: indexByName(blueprint.agents),
    subprocesses: indexByName(blueprint.subprocesses),
    runners: indexByName(blueprint.runners),
    metas: indexByName(blueprint.metas),
  };
  const resolve = runnerResolver(blueprint);
  const bindings: Binding[] = [];
  const agents = blueprint.agents ?? [];
  for (let i = 0; i < agents.length; i++) {
    const agent = agents[i];
    if (!agent) continue;
    const pointer = `/agents/${i}`;
    const resolution = resolve(agent, pointer);
    const runner = resolution.ok ? resolution.runner : null;
    const name = runner?.backend === 'subprocess' ? runner.template : undefined;
    const template = name === undefined ? undefined : named.subprocesses.get(name);
    bindings.push({ agent, pointer, resolution, template });
  }
  return { blueprint, bindings, named, usedBy: usersOf(bindings) };
}

function indexByName(list: readonly (Draft<{ name: string }> | undefined)[] = []): Map<string, number> {
  const byName = new Map<string, number>();
  for (let i = 0; i < list.length; i++) {
    const name = list[i]?.name;
    if (name !== undefined && !byName.has(name)) byName.set(name, i);
  }
  return byName;
}

/** Looks the users up when the first message needs them: most documents have none. */
function usersOf(bindings: readonly Binding[]): (template: number) => string {
  let users: Map<number, Binding[]> | undefined;
  return (template) => {
    users ??= Map.groupBy(bindings, ({ template }) => template ?? -1);
    const [first, ...more] = users.get(template) ?? [];
    if (first === undefined) return '';
    return ` (used by agent ${quote(first.agent.name ?? '')}${more.length > 0 ? ` and ${more.length} more` : ''})`;
  };
}
