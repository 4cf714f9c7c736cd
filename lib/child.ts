/** Runs the child of one attempt: render, spawn, collect. */
import type { CompiledAgent } from './blueprint/compile.ts';
import type { ChildFiles, Finished } from './child-files.ts';
import { type Issue, StepspawnError } from './errors.ts';
import { promptText } from './flow/step-input.ts';
import { canonicalJson, escapeSegment, type JsonValue } from './json.ts';
import { pollFor } from './poll.ts';
import type { AttemptPorts } from './ports.ts';
import { findAgent, type Prepared } from './prepare.ts';
import { attemptKey } from './store/keys.ts';
import type { Task } from './task.ts';
import { checkedBlueprint } from './validate.ts';
import { collectOutput } from './worker/collect.ts';
import { createMask } from './worker/mask.ts';
import { type Command, needsSystemFile, type Payload, payloadFile, renderCommand } from './worker/render.ts';
import type { Scratch } from './worker/scratch.ts';
import type { Exit } from './worker/spawn.ts';
import type { Startable } from './worker/start-checks.ts';
import { renderSystemPrompt } from './worker/system-prompt.ts';

/** A child whose command and private files are ready; nothing outside of its scratch has changed. */
export interface ReadyChild {
  /** Starts it and reads what it printed; `onStart` is called once it runs. Throws SpawnFailed and StoreUnavailable. */
  readonly run: (onStart: () => void) => Promise<Finished & { readonly exit: Exit }>;
}

/**
 * Renders the command and writes the attempt's private files. `mark` is the secret mark of its processes. Throws
 * PlaceholderUnset and InvalidBlueprint.
 */
export async function prepareChild(
  prepared: Prepared,
  scratch: Scratch,
  mark: string,
  ports: AttemptPorts,
): Promise<ReadyChild> {
  const { task, agent, directive } = prepared;
  const { command, payload } = await render(agent, task, directive, {
    system_file: scratch.file('system.md'),
    payload_file: scratch.file('payload.json'),
    nonce: mark.slice(mark.indexOf('=') + 1),
  });
  const { worker } = agent;
  if (payload.system !== null && worker.path === 'template' && needsSystemFile(worker)) {
    await scratch.write('system.md', payload.system);
  }
  await scratch.write('payload.json', canonicalJson(payloadFile(agent, payload)));
  return { run: (onStart) => runChild({ prepared, scratch, mark, ports, command, onStart }) };
}

interface Ready {
  readonly prepared: Prepared;
  readonly scratch: Scratch;
  readonly mark: string;
  readonly ports: AttemptPorts;
  readonly command: Command;
  readonly onStart: () => void;
}

async function runChild(ready: Ready): Promise<Finished & { readonly exit: Exit }> {
  const { prepared, scratch, mark, ports, command, onStart } = ready;
  const { task, agent, limits } = prepared;
  const { worker } = agent;
  const secrets = await resolveSecrets(agent, ports);
  const mask = createMask(Object.values(secrets));
  const output = collectOutput({ worker, scratch, mask, onEvent: ports.onEvent, onOutput: ports.onOutput });
  const cwd = command.cwd ?? ports.default_cwd ?? scratch.work;
  const user = ports.child_user;
  const files =
    worker.path === 'template' && (worker.files ?? worker.artifacts) !== null
      ? await (await import('./child-files.ts')).writeChildFiles({
          worker,
          command,
          cwd,
          scratch,
          limits,
          mask,
          user,
        })
      : NO_FILES;
  const watch = watchCancel(task, ports);
  const begun = performance.now();
  try {
    const exit = await ports.spawn({
      argv: command.argv,
      env: { ...ports.base_env, HOME: scratch.home, TMPDIR: scratch.tmp, ...command.env, ...secrets },
      cwd,
      origin: originOf(agent),
      stdin: command.stdin,
      limits,
      scratch,
      user,
      fifoRoot: ports.scratch.dir,
      mark,
      signal: watch.signal,
      onStart,
      onGrowth: output.grow,
    });
    ports.onChildEnd?.(performance.now() - begun);
    const collected = await output.settle(exit);
    if (exit.cause === 'interrupted') return { exit, collected, artifacts: null };
    const finished = await files.finish(collected);
    const left = (await files.remove()).map(
      (path) => `a file that was written could not be removed: ${path}`,
    );
    return { exit: { ...exit, warnings: [...exit.warnings, ...left] }, ...finished };
  } finally {
    watch.stop();
    await files.remove();
  }
}

const NO_FILES: ChildFiles = {
  finish: async (collected) => ({ collected, artifacts: null }),
  remove: async () => [],
};

/** The Command that an attempt would start, with made-up paths and nonce; starts and writes nothing. */
export async function previewCommand(task: Task): Promise<Command> {
  const agent = findAgent(await checkedBlueprint(task.blueprint), task.agent);
  const made = { system_file: '$ATTEMPT/system.md', payload_file: '$ATTEMPT/payload.json', nonce: '$NONCE' };
  return (await render(agent, task, task.in ?? '', made)).command;
}

async function render(
  agent: CompiledAgent,
  task: Task,
  directive: JsonValue,
  made: { readonly system_file: string; readonly payload_file: string; readonly nonce: string },
): Promise<{ readonly command: Command; readonly payload: Payload }> {
  const prompt = agent.worker.path === 'template' ? agent.worker.system_prompt : null;
  const system = prompt === null ? null : await renderSystemPrompt(prompt, directive);
  const payload: Payload = {
    task_id: task.task_id,
    attempt: task.attempt,
    prompt: promptText(directive),
    system: system?.ok ? system.text : system && '',
    system_file: system && made.system_file,
    payload_file: made.payload_file,
    context: task.context ?? {},
    nonce: made.nonce,
  };
  const rendered = renderCommand(agent, payload);
  const issues = [
    ...(system && !system.ok ? [promptIssue(agent, system)] : []),
    ...(rendered.ok ? [] : rendered.issues),
  ];
  if (rendered.ok && issues.length === 0) return { command: rendered.command, payload };
  const code = issues.every((issue) => UNSET.has(issue.code)) ? 'PlaceholderUnset' : 'InvalidBlueprint';
  throw new StepspawnError(code, issues.map(({ message }) => message).join('; '), { issues });
}
const UNSET = new Set(['missing_source', 'undefined_variable']);

function promptIssue(
  { name, worker }: CompiledAgent,
  { code, message }: { code: string; message: string },
): Issue {
  const path = worker.path === 'template' ? (worker.system_prompt_pointer ?? '') : '';
  return { code, path, message: `render system_prompt of agent '${name}': ${message}`, severity: 'error' };
}

async function resolveSecrets(
  { worker }: CompiledAgent,
  { secrets }: AttemptPorts,
): Promise<Record<string, string>> {
  const named = Object.entries((worker.path === 'template' && worker.secrets) || {});
  return Object.fromEntries(
    await Promise.all(named.map(async ([variable, name]) => [variable, await secrets.resolve(name)])),
  );
}

const ENV_PARTS = ['secrets', 'env'] as const;

/** Where each part of a command comes from in the document; what the engine adds comes from the agent. */
function originOf({ pointer, worker }: CompiledAgent): Startable['origin'] {
  const below = `${worker.pointer}/`;
  if (worker.path === 'spec') {
    return {
      argv: (i) => (i === 0 ? `${below}program` : i <= worker.args.length ? `${below}args/${i - 1}` : ''),
      env: () => pointer,
      cwd: pointer,
    };
  }
  return {
    argv: (i) => `${below}argv/${i}`,
    env: (name) => {
      const part = ENV_PARTS.find((field) => Object.hasOwn(worker[field] ?? {}, name));
      return part === undefined ? pointer : `${below}${part}/${escapeSegment(name)}`;
    },
    cwd: worker.cwd_pointer,
  };
}

/** Aborts when the caller does, and when the attempt's cancel marker appears. */
function watchCancel(
  task: Task,
  ports: AttemptPorts,
): { readonly signal: AbortSignal; readonly stop: () => void } {
  const controller = new AbortController();
  const key = attemptKey(task.task_id, task.attempt, 'cancel.json');
  const look = async (): Promise<void> => {
    if (await ports.store.read(key)) controller.abort('cancelled');
  };
  const stopPolling = pollFor(ports.cancel_poll, look);
  const onAbort = (): void =>
    controller.abort(ports.signal?.reason === 'cancelled' ? 'cancelled' : 'interrupted');
  if (ports.signal?.aborted) onAbort();
  ports.signal?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    stop: () => {
      stopPolling();
      ports.signal?.removeEventListener('abort', onAbort);
    },
  };
}
