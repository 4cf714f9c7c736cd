/** From a compiled agent and its payload to the Command: argv, stdin, env and cwd, not started. Pure. */
import type { CompiledAgent, EmbedTemplate } from '../blueprint/compile.ts';
import { missingMessage, type Placeholder, renderText, usesPlaceholder } from '../blueprint/placeholders.ts';
import type { Issue } from '../errors.ts';
import { escapeSegment, type JsonObject, type JsonValue, member, setMember } from '../json.ts';

/** What a child is started with; `env` holds only what the template and the engine add. */
export interface Command {
  readonly argv: readonly string[];
  readonly stdin: string | null;
  readonly env: Readonly<Record<string, string>>;
  /** null: the entry's default */
  readonly cwd: string | null;
  /** path -> content; only where the template declares files */
  readonly files?: Readonly<Record<string, string>>;
}

export interface Payload {
  readonly task_id: string;
  readonly attempt: number;
  /** the directive as text */
  readonly prompt: string;
  /** the rendered system prompt, null when the agent has none */
  readonly system: string | null;
  /** where the system prompt lies as a file, null when the agent has none */
  readonly system_file: string | null;
  readonly payload_file: string;
  readonly context: JsonObject;
  /** the secret by which the attempt's processes are known */
  readonly nonce: string;
}

/** Tiers of the context, the first that has a key wins; then the policy hides keys. */
export function contextView(agent: CompiledAgent, launch: JsonObject): JsonObject {
  const all = mergedContext(agent, launch);
  const { include, exclude } = agent.policy ?? {};
  const view: JsonObject = {};
  for (const key of Object.keys(all)) {
    const hidden = exclude?.includes(key) || (include != null && !include.includes(key));
    if (!hidden) setMember(view, key, all[key]!);
  }
  return view;
}

/** True when the step's string value is to stay text even where it looks like JSON. */
export function keepsText(agent: CompiledAgent, launch: JsonObject): boolean {
  return member(mergedContext(agent, launch), 'submit_format') === 'text';
}

function mergedContext(agent: CompiledAgent, launch: JsonObject): JsonObject {
  const merged: JsonObject = {};
  for (const tier of [launch, ...agent.ctx_tiers]) {
    for (const key of Object.keys(tier)) {
      const value = tier[key]!;
      if (Object.hasOwn(merged, key) || (DIRECTORIES.has(key) && typeof value !== 'string')) continue;
      setMember(merged, key, value);
    }
  }
  return merged;
}
const DIRECTORIES = new Set(['work_dir', 'project_root']);

/** The directory that `{work_dir}` stands for, and where a child without a `cwd` runs. */
export function workDir(view: JsonObject): string | null {
  const found = member(view, 'work_dir') ?? member(view, 'project_root');
  return typeof found === 'string' ? found : null;
}

/** The Command, or one issue per placeholder that has no source. */
export function renderCommand(
  agent: CompiledAgent,
  payload: Payload,
):
  | { readonly ok: true; readonly command: Command }
  | { readonly ok: false; readonly issues: readonly Issue[] } {
  const { worker } = agent;
  const own = engineVariables(agent.name, payload);
  const view = contextView(agent, payload.context);
  if (worker.path === 'spec') {
    const argv = [worker.program, ...worker.args, ...(worker.use_stdin ? [] : [payload.prompt])];
    const command = { argv, stdin: worker.use_stdin ? payload.prompt : null, env: own, cwd: workDir(view) };
    return { ok: true, command };
  }
  const values: Partial<Record<Placeholder, string>> = {
    prompt: payload.prompt,
    task_id: payload.task_id,
    attempt: String(payload.attempt),
    tools_csv: worker.tools_csv,
    ...present('system', payload.system),
    ...present('system_file', payload.system_file),
    ...present('model', worker.model),
    ...present('work_dir', workDir(view)),
  };
  const issues: Issue[] = [];
  const fill = (template: string, path: string): string => {
    const { text, missing } = renderText(template, values);
    for (const name of missing)
      issues.push({ code: 'missing_source', path, message: missingMessage(name), severity: 'error' });
    return text;
  };
  const argv = worker.argv.map((template, i) => fill(template, `${worker.pointer}/argv/${i}`));
  const fillAll = (part: 'env' | 'files', templates: Readonly<Record<string, string>>) =>
    Object.fromEntries(
      Object.entries(templates).map(([name, template]) => [
        name,
        fill(template, `${worker.pointer}/${part}/${escapeSegment(name)}`),
      ]),
    );
  const env = fillAll('env', worker.env);
  const cwd = worker.cwd === null ? workDir(view) : fill(worker.cwd, worker.cwd_pointer);
  const stdin = worker.stdin === null ? null : fill(worker.stdin, `${worker.pointer}/stdin`);
  const files = worker.files && fillAll('files', worker.files);
  if (issues.length > 0) return { ok: false, issues };
  return { ok: true, command: { argv, stdin, env: { ...own, ...env }, cwd, ...(files && { files }) } };
}

/** Whether any string of the template names `{system_file}`, so that the file has to be written. */
export function needsSystemFile(worker: EmbedTemplate): boolean {
  const strings = [
    ...worker.argv,
    worker.stdin,
    ...Object.values(worker.env),
    worker.cwd,
    ...Object.values(worker.files ?? {}),
  ];
  return strings.some((text) => text !== null && usesPlaceholder(text, 'system_file'));
}

/** What `MSE_PAYLOAD_FILE` holds: the child may read its own payload instead of taking it from placeholders. */
export function payloadFile(agent: CompiledAgent, payload: Payload): JsonValue {
  const { task_id, attempt, prompt, system } = payload;
  const model = agent.worker.path === 'template' ? agent.worker.model : null;
  const tools = agent.worker.path === 'template' ? [...agent.worker.tools] : [];
  const context: JsonObject = { task_id, agent: agent.name, attempt };
  const extra: JsonObject = {};
  const view = contextView(agent, payload.context);
  for (const key of Object.keys(view)) setMember(CONTEXT_KEYS.has(key) ? context : extra, key, view[key]!);
  if (Object.keys(extra).length > 0) context.extra = extra;
  return { task_id, attempt, agent: agent.name, system, prompt, model, tools, context };
}
const CONTEXT_KEYS = new Set(['project_root', 'work_dir', 'task_metadata', 'run_id', 'project_name_alias']);

function engineVariables(agent: string, payload: Payload): Record<string, string> {
  return {
    MSE_TOKEN_AGENT_ID: `worker-of-${payload.task_id}`,
    MSE_TOKEN_NONCE: payload.nonce,
    MSE_TASK_ID: payload.task_id,
    MSE_ATTEMPT: String(payload.attempt),
    MSE_CTX_AGENT: agent,
    MSE_PAYLOAD_FILE: payload.payload_file,
  };
}

function present(name: Placeholder, value: string | null): Partial<Record<Placeholder, string>> {
  return value === null ? {} : { [name]: value };
}
