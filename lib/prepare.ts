/** From a request to everything that an attempt needs to know, nothing started or written. */
import type { CompiledAgent } from './blueprint/compile.ts';
import { now } from './clock.ts';
import { failWith, type Issue, StepspawnError } from './errors.ts';
import { digest, escapeSegment, isObject, JsonError, type JsonValue, sha256 } from './json.ts';
import { type ResolvedLimits, resolveLimits } from './limits.ts';
import type { AttemptPorts } from './ports.ts';
import { blueprintKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { parseStored } from './store/result-store.ts';
import { DIGEST, type Task } from './task.ts';
import { type Blueprint, checkedBlueprint } from './validate.ts';

export interface Prepared {
  readonly task: Task;
  readonly blueprint: Blueprint;
  readonly agent: CompiledAgent;
  readonly directive: JsonValue;
  readonly request_digest: string;
  readonly limits: ResolvedLimits;
}

/**
 * Finds Blueprint, agent and input, and works out digest and limits. Throws InvalidBlueprint, InvalidTask, NotFound
 * and StoreUnavailable.
 */
export async function prepare(
  task: Task,
  ports: Pick<AttemptPorts, 'store' | 'secrets' | 'platform_deadline'>,
): Promise<Prepared> {
  const blueprint = await findBlueprint(task.blueprint, ports.store);
  const agent = findAgent(blueprint, task.agent);
  checkSecrets(agent, ports.secrets.names);
  const directive = await findInput(task, ports.store);
  const request_digest = requestDigest(task, blueprint.digest, directive);
  const limits = resolveLimits({
    template: agent.worker.path === 'template' ? agent.worker.limits : null,
    request_secs: task.timeout_secs,
    platform_secs:
      ports.platform_deadline === undefined ? undefined : (ports.platform_deadline - now()) / 1000,
  });
  return { task, blueprint, agent, directive, request_digest, limits };
}

/** Covers what was asked, not how long it may take: inline and referenced forms count as equal. */
function requestDigest({ agent, context }: Task, blueprint: string, directive: JsonValue): string {
  try {
    return digest({ agent, blueprint, input: digest(directive), context: context ?? null });
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    throw new StepspawnError('InvalidTask', `the input cannot be used: ${error.message}`, { cause: error });
  }
}

/** Only names that the operator mapped are resolved. Throws InvalidBlueprint. */
export function checkSecrets({ worker }: CompiledAgent, mapped: ReadonlySet<string>): void {
  if (worker.path !== 'template' || worker.secrets === null) return;
  const issues: Issue[] = Object.entries(worker.secrets)
    .filter(([, name]) => !mapped.has(name))
    .map(([variable, name]) => ({
      code: 'unknown_secret',
      path: `${worker.pointer}/secrets/${escapeSegment(variable)}`,
      message: `secret '${name}' is not mapped by the operator; mapped are [${[...mapped].sort().join(', ')}]`,
      severity: 'error',
    }));
  if (issues.length > 0) failWith('InvalidBlueprint', issues);
}

/** The agent of a Blueprint by name. Throws InvalidTask listing the declared names. */
export function findAgent(blueprint: Blueprint, name: string): CompiledAgent {
  const { agents } = blueprint.compiled;
  const agent = Object.hasOwn(agents, name) ? agents[name] : undefined;
  if (agent) return agent;
  const declared = Object.keys(agents).sort().slice(0, 20).join(', ');
  throw new StepspawnError('InvalidTask', `no agent '${name}' in the Blueprint; it declares [${declared}]`);
}

const registered = new Map<string, Blueprint>();
const REGISTERED_KEPT = 16;

/** The Blueprint of a request: the document itself, or a registered one by its digest. */
export async function findBlueprint(given: JsonValue, store: ObjectStore): Promise<Blueprint> {
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
