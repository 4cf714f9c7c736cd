/** The use case: claim -> compile -> render -> spawn -> normalise -> store. */
import type { CompiledAgent } from './blueprint/compile.ts';
import { now, timestamp } from './clock.ts';
import { ERRORS, errorBody, StepspawnError } from './errors.ts';
import { promptText } from './flow/step-input.ts';
import { canonicalJson, digest, isObject, type JsonValue, sha256 } from './json.ts';
import { CLAIM_MARGIN_MS, type ResolvedLimits, resolveLimits } from './limits.ts';
import { storeStreams, storeValue, untilStored } from './settle.ts';
import { attemptKey, blueprintKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import {
  claimAttempt,
  type HeldClaim,
  type HostProcess,
  markOf,
  parseStored,
  releaseClaim,
  storeResult,
} from './store/result-store.ts';
import { DIGEST, type Task, type TaskResult } from './task.ts';
import { type Blueprint, checkedBlueprint } from './validate.ts';
import { type Collected, collectOutput } from './worker/collect.ts';
import { endMarked, isAlive } from './worker/processes.ts';
import { type Command, needsSystemFile, type Payload, payloadFile, renderCommand } from './worker/render.ts';
import type { Scratch, ScratchRoot } from './worker/scratch.ts';
import type { Exit, Spawn } from './worker/spawn.ts';
import type { StreamEvent } from './worker/stream-event.ts';
import { renderSystemPrompt } from './worker/system-prompt.ts';

/** What an entry (terminal, server, Lambda) brings along. */
export interface AttemptPorts {
  readonly store: ObjectStore;
  readonly scratch: ScratchRoot;
  readonly spawn: Spawn;
  /** the child's environment before anything is added: PATH, locale, TZ */
  readonly base_env: Readonly<Record<string, string>>;
  /** where a child without cwd and work dir runs; null: the attempt's own empty directory */
  readonly default_cwd: string | null;
  /** this process, when claims of dead holders on this host may be taken over at once */
  readonly host: HostProcess | null;
  /** milliseconds between two looks at the cancel marker, and before the first */
  readonly cancel_poll_ms: number;
  /** milliseconds since the epoch at which the platform wants the result stored */
  readonly platform_deadline?: number;
  /** aborted: the child is ended and the claim given back, or, with the reason `cancelled`, that result stored */
  readonly signal?: AbortSignal | undefined;
  /** stream modes: each event as it arrives */
  readonly onEvent?: ((event: StreamEvent) => void) | undefined;
}

interface Prepared {
  readonly task: Task;
  readonly blueprint: Blueprint;
  readonly agent: CompiledAgent;
  readonly directive: JsonValue;
  readonly request_digest: string;
  readonly limits: ResolvedLimits;
}

/**
 * Runs one attempt, or answers from the store what it came to: at most one child runs for a task id and attempt.
 * A child that fails is a result. Throws InvalidBlueprint, InvalidTask, PlaceholderUnset, SpawnFailed,
 * AttemptConflict, AttemptInProgress, NotFound and StoreUnavailable.
 */
export async function runAttempt(task: Task, ports: AttemptPorts): Promise<TaskResult> {
  const prepared = await prepare(task, ports);
  const { limits, request_digest } = prepared;
  const deadline = now() + limits.timeout_secs * 1000 + CLAIM_MARGIN_MS;
  const { task_id, attempt } = task;
  const answer = await claimAttempt(ports.store, {
    task_id,
    attempt,
    request_digest,
    deadline,
    now: now(),
    host: ports.host,
    isAlive,
  });
  if (answer.kind === 'settled') return replay(answer.result);
  const { held } = answer;
  if (held.takenOver?.sameHost) endMarked(markOf(held.takenOver.holder));
  return work(prepared, held, deadline, ports);
}

/** A stored result as the answer to a repeated request: a stored failure is thrown again. */
export function replay(result: TaskResult): TaskResult {
  if (result.error)
    throw new StepspawnError(result.error.code, result.error.message, { issues: result.error.issues ?? [] });
  return { ...result, replayed: true };
}

/** The parts of a result that tell about a child, when none ran. */
const NOTHING_RAN = {
  exit: { code: null, signal: null },
  stats: { worker_kind: 'subprocess', adapter_data: { exit_code: null } },
  stdout: { size_bytes: 0, tail: '', key: null },
  stderr: { size_bytes: 0, tail: '', key: null },
} as const satisfies Partial<TaskResult>;

async function prepare(task: Task, ports: AttemptPorts): Promise<Prepared> {
  const blueprint = await findBlueprint(task.blueprint, ports.store);
  const agent = findAgent(blueprint, task.agent);
  const directive = await findInput(task, ports.store);
  const request_digest = digest({
    agent: task.agent,
    blueprint: blueprint.digest,
    input: digest(directive),
    context: task.context ?? null,
  });
  const limits = resolveLimits({
    template: agent.worker.path === 'template' ? agent.worker.limits : null,
    request_secs: task.timeout_secs,
    platform_secs:
      ports.platform_deadline === undefined ? undefined : (ports.platform_deadline - now()) / 1000,
  });
  return { task, blueprint, agent, directive, request_digest, limits };
}

function findAgent(blueprint: Blueprint, name: string): CompiledAgent {
  const { agents } = blueprint.compiled;
  const agent = Object.hasOwn(agents, name) ? agents[name] : undefined;
  if (agent) return agent;
  const declared = Object.keys(agents).sort().slice(0, 20).join(', ');
  throw new StepspawnError('InvalidTask', `no agent '${name}' in the Blueprint; it declares [${declared}]`);
}

const registered = new Map<string, Blueprint>();
const REGISTERED_KEPT = 16;

async function findBlueprint(given: JsonValue, store: ObjectStore): Promise<Blueprint> {
  const named = isObject(given) && Object.keys(given).length === 1 ? given.digest : undefined;
  if (typeof named !== 'string') return checkedBlueprint(given);
  if (!DIGEST.test(named))
    throw new StepspawnError('InvalidTask', `blueprint digest '${named}' is not sha256:<64 hex>`);
  const known = registered.get(named);
  if (known) return known;
  const key = blueprintKey(named);
  const found = await store.read(key);
  if (!found) throw new StepspawnError('NotFound', `no registered Blueprint ${named}`);
  const blueprint = await checkedBlueprint(parseStored(key, found));
  for (const oldest of [...registered.keys()].slice(0, Math.max(0, registered.size - REGISTERED_KEPT + 1)))
    registered.delete(oldest);
  registered.set(named, blueprint);
  return blueprint;
}

async function findInput(task: Task, store: ObjectStore): Promise<JsonValue> {
  const { in: inline, in_ref: reference } = task;
  if (reference === undefined) {
    if (inline === undefined)
      throw new StepspawnError('InvalidTask', 'the request has no input; give in or in_ref');
    return inline;
  }
  if (inline !== undefined) throw new StepspawnError('InvalidTask', 'give in or in_ref, not both');
  if (!/^(inputs|runs|tasks)\//.test(reference.key) || reference.key.split('/').includes('..')) {
    throw new StepspawnError('InvalidTask', `in_ref key '${reference.key}' lies outside inputs/`);
  }
  const found = await store.read(reference.key);
  if (!found) throw new StepspawnError('NotFound', `no object ${reference.key} in the store`);
  const actual = sha256(found.body);
  if (actual !== reference.sha256) {
    throw new StepspawnError(
      'InvalidTask',
      `object ${reference.key} has sha256 ${actual}, the request says ${reference.sha256}`,
    );
  }
  return reference.key.endsWith('.json') ? parseStored(reference.key, found) : found.body.toString();
}

async function work(
  prepared: Prepared,
  held: HeldClaim,
  deadline: number,
  ports: AttemptPorts,
): Promise<TaskResult> {
  const started_at = timestamp();
  const clock = performance.now();
  let started = held.takenOver?.started ?? false;
  const base = {
    task_id: prepared.task.task_id,
    attempt: prepared.task.attempt,
    agent: prepared.agent.name,
    blueprint_digest: prepared.blueprint.digest,
    request_digest: prepared.request_digest,
  };
  const finish = (
    rest: Omit<TaskResult, keyof typeof base | 'started_at' | 'completed_at' | 'duration_ms' | 'replayed'>,
  ): Promise<TaskResult> => {
    const times = {
      started_at,
      completed_at: timestamp(),
      duration_ms: Math.round(performance.now() - clock),
      replayed: false,
    };
    const result: TaskResult = { ...base, ...rest, ...times };
    return untilStored(deadline, () => storeResult(ports.store, result));
  };
  const warnings = started
    ? ['an earlier holder of this attempt was lost; its child may have run once already']
    : [];
  const mark = markOf(held.holder);
  let scratch: Scratch | undefined;
  try {
    scratch = await ports.scratch.make(mark);
    const { exit, collected } = await runChild(prepared, scratch, mark, ports, () => {
      started = true;
    });
    if (exit.cause === 'interrupted') {
      throw new StepspawnError(
        'AttemptInProgress',
        `attempt ${base.attempt} of task ${base.task_id} was interrupted; it can be started again`,
      );
    }
    const { outcome } = collected;
    const value = await untilStored(deadline, () => storeValue(ports.store, base, outcome.value));
    const streams = await untilStored(deadline, () => storeStreams(ports.store, base, collected));
    return await finish({
      status: outcome.ok ? 'passed' : 'blocked',
      ok: outcome.ok,
      reason: outcome.reason,
      message: outcome.message,
      ...value,
      exit: exit.status,
      stats: outcome.stats,
      ...streams,
      warnings: [...warnings, ...outcome.warnings, ...exit.warnings],
    });
  } catch (error) {
    if (error instanceof StepspawnError && ERRORS[error.code].stored) {
      const failed = await finish({
        status: 'failed',
        ok: false,
        reason: null,
        message: error.message,
        error: errorBody(error),
        warnings,
        ...NOTHING_RAN,
      });
      return replay(failed);
    }
    await releaseClaim(ports.store, held, started).catch(() => undefined);
    throw error;
  } finally {
    await scratch?.remove();
  }
}

async function runChild(
  prepared: Prepared,
  scratch: Scratch,
  mark: string,
  ports: AttemptPorts,
  onStart: () => void,
): Promise<{ readonly exit: Exit; readonly collected: Collected }> {
  const { task, agent, directive, limits } = prepared;
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
  const output = collectOutput({ worker, scratch, onEvent: ports.onEvent });
  const watch = watchCancel(task, ports);
  try {
    const exit = await ports.spawn({
      argv: command.argv,
      env: { ...ports.base_env, HOME: scratch.home, TMPDIR: scratch.tmp, ...command.env },
      cwd: command.cwd ?? ports.default_cwd ?? scratch.work,
      origin: originOf(agent),
      stdin: command.stdin,
      limits,
      scratch,
      fifoRoot: ports.scratch.dir,
      mark,
      signal: watch.signal,
      onStart,
      onGrowth: output.grow,
    });
    return { exit, collected: await output.settle(exit) };
  } finally {
    watch.stop();
  }
}

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
  const system = prompt === null ? null : await renderedPrompt(agent, prompt, directive);
  const payload: Payload = {
    task_id: task.task_id,
    attempt: task.attempt,
    prompt: promptText(directive),
    system,
    system_file: system === null ? null : made.system_file,
    payload_file: made.payload_file,
    context: task.context ?? {},
    nonce: made.nonce,
  };
  const rendered = renderCommand(agent, payload);
  if (rendered.ok) return { command: rendered.command, payload };
  const { issues } = rendered;
  throw new StepspawnError('PlaceholderUnset', issues.map(({ message }) => message).join('; '), { issues });
}

async function renderedPrompt(agent: CompiledAgent, prompt: string, directive: JsonValue): Promise<string> {
  const answer = await renderSystemPrompt(prompt, directive);
  if (answer.ok) return answer.text;
  const message = `render system_prompt of agent '${agent.name}': ${answer.message}`;
  const path = agent.worker.path === 'template' ? (agent.worker.system_prompt_pointer ?? '') : '';
  throw new StepspawnError(
    answer.code === 'undefined_variable' ? 'PlaceholderUnset' : 'InvalidBlueprint',
    message,
    {
      issues: [{ code: answer.code, path, message, severity: 'error' }],
    },
  );
}

function originOf({ worker }: CompiledAgent): { argv: string; env: string; cwd: string } {
  if (worker.path === 'spec')
    return { argv: `${worker.pointer}/args`, env: `${worker.pointer}/env`, cwd: `${worker.pointer}/cwd` };
  return { argv: `${worker.pointer}/argv`, env: `${worker.pointer}/env`, cwd: worker.cwd_pointer };
}

/** Aborts when the caller does, and when the attempt's cancel marker appears. */
function watchCancel(
  task: Task,
  ports: AttemptPorts,
): { readonly signal: AbortSignal; readonly stop: () => void } {
  const controller = new AbortController();
  const key = attemptKey(task.task_id, task.attempt, 'cancel.json');
  const look = async (): Promise<void> => {
    const found = await ports.store.read(key).catch(() => null);
    if (found) controller.abort('cancelled');
  };
  const timer = setInterval(() => void look(), ports.cancel_poll_ms);
  const onAbort = (): void =>
    controller.abort(ports.signal?.reason === 'cancelled' ? 'cancelled' : 'interrupted');
  if (ports.signal?.aborted) onAbort();
  ports.signal?.addEventListener('abort', onAbort, { once: true });
  return {
    signal: controller.signal,
    stop: () => {
      clearInterval(timer);
      ports.signal?.removeEventListener('abort', onAbort);
    },
  };
}
