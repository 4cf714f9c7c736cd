/** Resolves each agent of a valid Blueprint to what its attempts start from. */
import { compareUtf8, isObject, type JsonObject, type JsonValue, setMember } from '../json.ts';
import type { Binding, Subject } from './bindings.ts';
import type { SubprocessOutput } from './output-schema.ts';
import type {
  AgentDef,
  ArtifactDef,
  Blueprint,
  ContextPolicy,
  Limits,
  Retry,
  StreamMode,
  SubprocessDef,
  SubprocessOverrides,
} from './schema.ts';
import { type SpecWorker, specWorker } from './spec.ts';

/** A template with profile and overrides resolved; its strings still hold placeholders. */
export interface EmbedTemplate {
  readonly path: 'template';
  /** name of the template, and its pointer */
  readonly template: string;
  readonly pointer: string;
  readonly argv: readonly string[];
  readonly stdin: string | null;
  /** sorted by key */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | null;
  /** where cwd is written, or could be */
  readonly cwd_pointer: string;
  /** as written, without nulls */
  readonly output: SubprocessOutput | null;
  readonly system_prompt: string | null;
  readonly system_prompt_pointer: string | null;
  readonly model: string | null;
  readonly tools: readonly string[];
  readonly tools_csv: string;
  readonly stream_mode: StreamMode | null;
  readonly limits: Limits | null;
  /** environment name -> name of a secret that the operator maps */
  readonly secrets: Readonly<Record<string, string>> | null;
  readonly retry: Retry | null;
  /** path -> content, which still holds placeholders; sorted by path */
  readonly files: Readonly<Record<string, string>> | null;
  readonly artifacts: readonly ArtifactDef[] | null;
}

export type Worker = EmbedTemplate | SpecWorker;

export interface CompiledAgent {
  readonly name: string;
  readonly pointer: string;
  readonly worker: Worker;
  /** the agent's own context over its `meta_ref`, then `default_agent_ctx`; the first that has a key wins */
  readonly ctx_tiers: readonly JsonObject[];
  /** the agent's policy, else the Blueprint's */
  readonly policy: ContextPolicy | null;
}

/** The agents by name, in an object without prototype; agents of other kinds are left out. */
export function bakeAgents(blueprint: Blueprint, subject: Subject): Record<string, CompiledAgent> {
  const templates = (blueprint.subprocesses ?? []).map((template, i) =>
    bakeTemplate(template, `/subprocesses/${i}`),
  );
  const agents: Record<string, CompiledAgent> = Object.create(null);
  blueprint.agents?.forEach((agent, i) => {
    const binding = subject.bindings[i];
    if (agent.kind !== 'subprocess' || !binding) return;
    const template = binding.template === undefined ? undefined : templates[binding.template];
    agents[agent.name] = {
      name: agent.name,
      pointer: binding.pointer,
      worker: template
        ? embed(template, agent, binding, overridesOf(blueprint, agent, binding))
        : specWorker(agent.spec, `${binding.pointer}/spec`),
      ctx_tiers: contextTiers(blueprint, agent, subject),
      policy: agent.meta?.context_policy ?? blueprint.default_context_policy ?? null,
    };
  });
  return agents;
}

function bakeTemplate(template: SubprocessDef, pointer: string): EmbedTemplate {
  const { name, argv, stdin, env, cwd, output, stream_mode, limits, secrets, retry, files, artifacts } =
    template;
  return {
    path: 'template',
    template: name,
    pointer,
    argv,
    stdin: stdin ?? null,
    env: env ? sorted(env) : {},
    cwd: cwd ?? null,
    cwd_pointer: `${pointer}/cwd`,
    output: output ? bakeOutput(output) : null,
    system_prompt: null,
    system_prompt_pointer: null,
    model: null,
    tools: [],
    tools_csv: '',
    stream_mode: stream_mode ?? null,
    limits: limits ? withoutNulls(limits) : null,
    secrets: secrets ?? null,
    retry: retry ?? null,
    files: files ? sorted(files) : null,
    artifacts: artifacts ?? null,
  };
}

function bakeOutput(output: SubprocessOutput): SubprocessOutput {
  const { stats, error } = output;
  return withoutNulls({
    ...output,
    ...(stats && { stats: withoutNulls(stats) }),
    ...(error && { error: withoutNulls(error) }),
  });
}

function embed(
  template: EmbedTemplate,
  { profile }: AgentDef,
  { pointer, resolution }: Binding,
  overrides: SubprocessOverrides,
): EmbedTemplate {
  const prompt = profile?.system_prompt || null;
  const tools = overrides.tools?.length ? overrides.tools : (profile?.tools ?? []);
  const runner = resolution.ok ? resolution.pointer : null;
  return {
    ...template,
    cwd: overrides.cwd ?? template.cwd,
    cwd_pointer: overrides.cwd == null ? template.cwd_pointer : `${runner}/overrides/cwd`,
    system_prompt: prompt,
    system_prompt_pointer: prompt === null ? null : `${pointer}/profile/system_prompt`,
    model: overrides.model ?? profile?.model ?? null,
    tools,
    tools_csv: tools.join(','),
  };
}

function overridesOf(blueprint: Blueprint, agent: AgentDef, { resolution }: Binding): SubprocessOverrides {
  const entry = resolution.ok ? resolution.entry : null;
  const runner = entry === null ? agent.runner : blueprint.runners?.[entry]?.runner;
  return (runner?.backend === 'subprocess' && runner.overrides) || {};
}

function contextTiers(blueprint: Blueprint, { meta }: AgentDef, { named }: Subject): JsonObject[] {
  const entry = meta?.meta_ref == null ? undefined : named.metas.get(meta.meta_ref);
  const shared = entry === undefined ? undefined : blueprint.metas?.[entry]?.ctx;
  return [merged(shared, meta?.ctx), blueprint.default_agent_ctx].filter((tier) => isObject(tier));
}

function merged(below: JsonValue | undefined, above: JsonValue | undefined): JsonValue | undefined {
  if (!isObject(below) || !isObject(above)) return isObject(above) ? above : below;
  return { ...below, ...above };
}

function sorted(env: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const names = Object.keys(env);
  if (names.length < 2) return env;
  names.sort(compareUtf8);
  const copy: JsonObject = {};
  for (const name of names) setMember(copy, name, env[name]!);
  return copy as Record<string, string>;
}

function withoutNulls<T extends object>(fields: T): T {
  const values = Object.values(fields);
  if (!values.some((value) => value == null)) return fields;
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as T;
}
