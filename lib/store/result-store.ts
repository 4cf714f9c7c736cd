/** Claims and results of attempts: at most one holder at a time, exactly one stored result. */
import * as z from 'zod/mini';
import { StepspawnError } from '../errors.ts';
import { canonicalJson, type JsonValue, MAX_STORED_DEPTH, parseJson, sha256 } from '../json.ts';
import type { TaskResult } from '../task.ts';
import { attemptKey } from './keys.ts';
import type { ObjectStore, StoredObject } from './object-store.ts';

/** Names one process of one boot, so that a claim whose holder is dead can be taken over at once. */
export const HostProcess = z.object({ boot_id: z.string(), pid: z.int(), start_time: z.int() });
export type HostProcess = z.infer<typeof HostProcess>;

const Claim = z.object({
  holder: z.string(),
  request_digest: z.string(),
  /** RFC 3339; after it the claim may be taken over */
  deadline: z.string(),
  host: z.nullable(HostProcess),
  /** given back before a result was stored; the child may have run in part when `started` */
  released: z.boolean(),
  started: z.boolean(),
});
type Claim = z.infer<typeof Claim>;

export interface AttemptId {
  readonly task_id: string;
  readonly attempt: number;
}

export interface ClaimRequest extends AttemptId {
  readonly request_digest: string;
  /** secret name of the caller, the same when it asks again */
  readonly holder: string;
  /** milliseconds since the epoch until which the holder may work, and now */
  readonly deadline: number;
  readonly now: number;
  readonly host: HostProcess | null;
  /** whether a holder on this host is still there; asked only about claims of this boot */
  readonly isAlive: (host: HostProcess) => boolean;
}

export interface HeldClaim extends AttemptId {
  readonly claim: Claim;
  /** the claim that was taken over, whose child may have run once already */
  readonly takenOver: {
    readonly holder: string;
    readonly started: boolean;
    readonly sameHost: boolean;
  } | null;
}

export type ClaimAnswer =
  | { readonly kind: 'held'; readonly held: HeldClaim }
  | { readonly kind: 'settled'; readonly result: TaskResult };

/**
 * Takes the attempt, or finds it settled. Throws AttemptConflict when it was used with another request and
 * AttemptInProgress while another holder works on it.
 */
export async function claimAttempt(store: ObjectStore, request: ClaimRequest): Promise<ClaimAnswer> {
  const key = attemptKey(request.task_id, request.attempt, 'claim.json');
  const claim: Claim = {
    holder: request.holder,
    request_digest: request.request_digest,
    deadline: new Date(request.deadline).toISOString(),
    host: request.host,
    released: false,
    started: false,
  };
  const held = (takenOver: HeldClaim['takenOver']): ClaimAnswer => ({
    kind: 'held',
    held: { task_id: request.task_id, attempt: request.attempt, claim, takenOver },
  });
  const body = canonicalJson(claim);
  let displaced: HeldClaim['takenOver'] = null;
  for (;;) {
    if (await store.create(key, body)) return held(null);
    const result = await readResult(store, request);
    if (result) return settled(result, request);
    const found = await store.read(key);
    if (!found) continue;
    const other = parseClaim(key, found);
    if (other.holder === claim.holder) return held(displaced);
    if (other.request_digest !== request.request_digest) throw conflict(request);
    const sameHost = other.host !== null && other.host.boot_id === request.host?.boot_id;
    const dead = sameHost && other.host !== null && !request.isAlive(other.host);
    const over = other.released || dead || Date.parse(other.deadline) <= request.now;
    if (!over) {
      throw new StepspawnError(
        'AttemptInProgress',
        `attempt ${request.attempt} of task ${request.task_id} is in progress until ${other.deadline} at the latest`,
      );
    }
    displaced = { holder: other.holder, started: other.started || !other.released, sameHost };
    if (!(await store.replace(key, body, found.version))) continue;
    const late = await readResult(store, request);
    if (late) return settled(late, request);
    return held(displaced);
  }
}

/** Gives the claim back without a result: the next caller may start at once. Does nothing when it was taken over. */
export async function releaseClaim(store: ObjectStore, held: HeldClaim, started: boolean): Promise<void> {
  const key = attemptKey(held.task_id, held.attempt, 'claim.json');
  const found = await store.read(key);
  if (!found || parseClaim(key, found).holder !== held.claim.holder) return;
  await store.replace(key, canonicalJson({ ...held.claim, released: true, started }), found.version);
}

/** Stores the result, once: the stored one is returned, which is another's if that came first. */
export async function storeResult(store: ObjectStore, result: TaskResult): Promise<TaskResult> {
  const key = attemptKey(result.task_id, result.attempt, 'result.json');
  const body = JSON.stringify(result);
  if (await store.create(key, body)) return result;
  const found = await store.read(key);
  if (!found) return storeResult(store, result);
  return found.body.toString() === body ? result : { ...parseResult(key, found), replayed: true };
}

function parseResult(key: string, object: StoredObject): TaskResult {
  return parseStored(key, object) as unknown as TaskResult;
}

/** The stored result of an attempt, or null. */
export async function readResult(store: ObjectStore, id: AttemptId): Promise<TaskResult | null> {
  const key = attemptKey(id.task_id, id.attempt, 'result.json');
  const found = await store.read(key);
  return found ? parseResult(key, found) : null;
}

/** JSON that we wrote ourselves. Throws StoreUnavailable when it is damaged. */
export function parseStored(key: string, object: StoredObject): JsonValue {
  try {
    return parseJson(object.body.toString(), MAX_STORED_DEPTH);
  } catch (error) {
    throw new StepspawnError('StoreUnavailable', `the stored object ${key} is damaged`, { cause: error });
  }
}

/** The secret mark of a holder's processes, found again by whoever takes the claim over. */
export function markOf(holder: string): string {
  return `MSE_TOKEN_NONCE=${sha256(holder).slice(0, 32)}`;
}

function settled(result: TaskResult, request: ClaimRequest): ClaimAnswer {
  if (result.request_digest !== request.request_digest) throw conflict(request);
  return { kind: 'settled', result };
}

function conflict({ task_id, attempt }: AttemptId): StepspawnError {
  return new StepspawnError(
    'AttemptConflict',
    `attempt ${attempt} of task ${task_id} was already used with a different request; use another task id or attempt`,
  );
}

function parseClaim(key: string, object: StoredObject): Claim {
  const parsed = Claim.safeParse(parseStored(key, object));
  if (parsed.success) return parsed.data;
  throw new StepspawnError('StoreUnavailable', `the stored object ${key} is damaged`, {
    cause: parsed.error,
  });
}

/** Whether an attempt is claimed: not at all, by a holder, or given back by one that was interrupted. */
export async function claimState(store: ObjectStore, id: AttemptId): Promise<'none' | 'held' | 'released'> {
  const key = attemptKey(id.task_id, id.attempt, 'claim.json');
  const found = await store.read(key);
  if (!found) return 'none';
  return parseClaim(key, found).released ? 'released' : 'held';
}

/** The highest attempt number of a task, or null when it has none. */
export async function newestAttempt(store: ObjectStore, taskId: string): Promise<number | null> {
  const keys = await store.list(`tasks/${taskId}/`);
  const numbers = keys.map((key) => Number(key.split('/')[2]));
  return numbers.length === 0 ? null : Math.max(...numbers);
}
