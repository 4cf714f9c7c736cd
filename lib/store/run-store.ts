/**
 * Runs in the store, as write-once objects but for the cancel marker:
 * `runs/<id>/run.json` who it is · `runs/<id>/<round>/start.json` what a retry takes over from the round before ·
 * `runs/<id>/<round>/decided/…` outcomes that depended on time · `runs/<id>/cancel.json` the cancel marker ·
 * `runs/<id>/<round>/result.json` how it ended. A retry of a run that did not end as done is a new round.
 */
import { timestamp } from '../clock.ts';
import { StepspawnError } from '../errors.ts';
import {
  canonicalJson,
  compactJson,
  isObject,
  JsonError,
  type JsonObject,
  type JsonValue,
  sha256,
  toDouble,
} from '../json.ts';
import { type Spent, sumSpent } from '../spent.ts';
import { runKey } from './keys.ts';
import type { ObjectStore } from './object-store.ts';
import { parseStored } from './result-store.ts';

/** A dispatched step as the run remembers it; all else about it is in its TaskResult. */
export interface StepEntry {
  readonly task_id: string;
  readonly attempt: number;
  readonly ref: string;
  readonly position: string;
  readonly status: 'passed' | 'blocked' | 'failed' | 'cancelled';
  readonly completed_at: string;
  /** by all attempts of the step in this round */
  readonly spent?: Spent;
}

export interface RunError {
  readonly message: string;
  /** the agent whose step ended the run */
  readonly failed_step?: string;
  /** the value of that step, where it ran */
  readonly verdict_value?: JsonValue;
}

/** How a round of a run ended. */
export interface Ended {
  readonly run_id: string;
  readonly status: 'done' | 'failed' | 'cancelled';
  readonly ctx?: JsonValue;
  readonly error?: RunError;
  readonly steps: readonly StepEntry[];
  /** attempt numbers that a retry would use, by task id, where they differ from 1 */
  readonly retry_attempts: Readonly<Record<string, number>>;
  /** by all steps of all rounds, where programs told */
  readonly totals?: Spent;
  readonly completed_at: string;
}

export interface Round {
  readonly run_id: string;
  readonly number: number;
  /** attempt number by task id, where it is not 1 */
  readonly attempts: Readonly<Record<string, number>>;
  /** RFC 3339; the time limit of the run counts from here */
  readonly started_at: string;
  /** what depended on time in earlier rounds and still holds */
  readonly decided: Readonly<Record<string, number>>;
  /** by attempts of earlier rounds that this one does not answer from the store */
  readonly spent: Spent;
  readonly ended: Ended | null;
}

/** How a round ended, before it is stored. */
export type RoundEnd = Pick<Ended, 'status' | 'ctx' | 'error' | 'steps'> & {
  /** by position: what attempts used whose step has another one to come */
  readonly unsettled: ReadonlyMap<string, Spent>;
  /** positions of the steps that a retry does again */
  readonly fatal?: readonly string[];
};

/** Who a run is: written once, before anything of it runs. */
export interface RunRecord {
  /** digest of blueprint, ctx and context: what makes two starts of one run id the same run */
  readonly request_digest: string;
  readonly blueprint_digest: string;
  readonly ctx: JsonValue;
  readonly context: JsonObject;
  readonly ttl_secs: number;
  readonly created_at: string;
}

/**
 * Opens the run's newest round. A run that ended is answered from the store; with `retry`, one that did not end
 * as done gets a new round. Throws AttemptConflict when the id belongs to another Blueprint or context.
 */
export async function openRound(
  store: ObjectStore,
  runId: string,
  record: Omit<RunRecord, 'created_at'>,
  retry: boolean,
): Promise<Round> {
  const body = compactJson({ ...record, created_at: timestamp() });
  if (!(await store.create(runKey(runId, 'run.json'), body))) {
    const found = await readRun(store, runId);
    if (found?.request_digest !== record.request_digest) {
      throw new StepspawnError(
        'AttemptConflict',
        `run id '${runId}' was already used with another Blueprint, ctx or context; use another run id`,
      );
    }
  }
  const newest = await newestRound(store, runId);
  if (!retry || newest.ended === null || newest.ended.status === 'done') return newest;
  const number = newest.number + 1;
  const start: RoundStart = {
    attempts: newest.ended.retry_attempts,
    decided: await stillDecided(store, newest),
    spent: sumSpent([newest.spent, ...repeatedSteps(newest).map(({ spent }) => spent)]),
    started_at: timestamp(),
  };
  await store.create(runKey(runId, `${number}/start.json`), compactJson(start));
  return newestRound(store, runId);
}

type RoundStart = Pick<Round, 'attempts' | 'decided' | 'spent' | 'started_at'>;

/** Steps of a round that ended which a retry runs again. */
function repeatedSteps({ ended }: Round): StepEntry[] {
  return (ended?.steps ?? []).filter(
    ({ task_id, attempt }) => (ended?.retry_attempts[task_id] ?? 0) > attempt,
  );
}

/** Decisions of a round, but those of fan-outs in which a step ended the run: there everything is open again. */
async function stillDecided(store: ObjectStore, round: Round): Promise<Record<string, number>> {
  const again = repeatedSteps(round);
  const kept = [...(await readDecisions(store, round))].filter(
    ([at]) => !again.some(({ position }) => position.startsWith(`${at}/body/`)),
  );
  return Object.fromEntries(kept);
}

/** The record of a run, or null when there is none. */
export async function readRun(store: ObjectStore, runId: string): Promise<RunRecord | null> {
  const found = await readJson(store, runKey(runId, 'run.json'));
  return isObject(found) ? (found as unknown as RunRecord) : null;
}

/** The newest round of a run, as far as it got; its record is read where it is not given. */
export async function newestRound(
  store: ObjectStore,
  runId: string,
  record?: Pick<RunRecord, 'created_at'>,
): Promise<Round> {
  for (let number = 0; ; number++) {
    const ended = (await readJson(store, runKey(runId, `${number}/result.json`))) as Ended | null;
    const next = ended && (await store.read(runKey(runId, `${number + 1}/start.json`)));
    if (next) continue;
    const start = (await readJson(store, runKey(runId, `${number}/start.json`))) as RoundStart | null;
    const created = async () => (record ?? (await readRun(store, runId)))?.created_at ?? timestamp();
    const started_at = start?.started_at ?? (await created());
    const { attempts = {}, decided = {}, spent = {} } = start ?? {};
    return { run_id: runId, number, attempts, decided, spent, started_at, ended };
  }
}

/** Writes the cancel marker of a run: it holds for the round that is under way, not for a later retry. */
export async function cancelRun(store: ObjectStore, runId: string): Promise<void> {
  const body = Buffer.from(canonicalJson({ requested_at: timestamp() }));
  await store.upload(runKey(runId, 'cancel.json'), async function* () {
    yield body;
  });
}

/** Whether the run was cancelled since this round of it began. */
export async function isCancelled(store: ObjectStore, round: Round): Promise<boolean> {
  return holdsFor(round, await readCancel(store, round.run_id));
}

/** The same for the newest round of a run; one look as long as there is no marker. */
export async function isRunCancelled(store: ObjectStore, runId: string): Promise<boolean> {
  const marker = await readCancel(store, runId);
  return marker !== null && holdsFor(await newestRound(store, runId), marker);
}

function readCancel(store: ObjectStore, runId: string): Promise<JsonValue> {
  return readJson(store, runKey(runId, 'cancel.json'));
}

function holdsFor(round: Round, marker: JsonValue): boolean {
  return (
    isObject(marker) && typeof marker.requested_at === 'string' && marker.requested_at > round.started_at
  );
}

/** Attempt numbers for a retry: the next one for the steps at `fatal` positions and for what was cancelled. */
function retryAttempts(
  round: Round,
  steps: readonly StepEntry[],
  fatal: readonly string[],
): Record<string, number> {
  const positions = new Set(fatal);
  const again = steps.filter(({ status, position }) => status === 'cancelled' || positions.has(position));
  return {
    ...round.attempts,
    ...Object.fromEntries(again.map(({ task_id, attempt }) => [task_id, attempt + 1])),
  };
}

/** Stores how the round ended, once; what is stored is the answer. */
export async function endRound(
  store: ObjectStore,
  round: Round,
  { unsettled, fatal = [], ...end }: RoundEnd,
): Promise<Ended> {
  const totals = sumSpent([round.spent, ...unsettled.values(), ...end.steps.map(({ spent }) => spent)]);
  const ended: Ended = {
    run_id: round.run_id,
    ...end,
    retry_attempts: end.status === 'done' ? {} : retryAttempts(round, end.steps, fatal),
    ...(Object.keys(totals).length > 0 && { totals }),
    completed_at: timestamp(),
  };
  const key = runKey(round.run_id, `${round.number}/result.json`);
  await store.create(key, storable(ended));
  return ((await readJson(store, key)) as Ended | null) ?? ended;
}

/** JSON of the end; a context that cannot be stored makes the run a failed one. */
function storable(ended: Ended): string {
  try {
    return compactJson(ended);
  } catch (error) {
    if (!(error instanceof JsonError)) throw error;
    const { ctx: _, ...rest } = ended;
    return compactJson({
      ...rest,
      status: 'failed',
      error: { message: `the final context cannot be stored: ${error.message}` },
    });
  }
}

/** Outcomes of this round that depended on time: which lane decided the fan-out at a position. */
export async function readDecisions(store: ObjectStore, round: Round): Promise<ReadonlyMap<string, number>> {
  const decisions = new Map<string, number>(Object.entries(round.decided));
  for (const key of await store.list(runKey(round.run_id, `${round.number}/decided/`))) {
    const found = await readJson(store, key);
    const lane = isObject(found) ? toDouble(found.lane) : undefined;
    if (isObject(found) && typeof found.position === 'string' && lane !== undefined)
      decisions.set(found.position, lane);
  }
  return decisions;
}

/**
 * Records decisions that are not in `recorded` yet, before anything is dispatched because of them: false when another
 * lane was recorded first.
 */
export async function recordDecisions(
  store: ObjectStore,
  round: Round,
  decisions: ReadonlyMap<string, number>,
  recorded: Set<string>,
): Promise<boolean> {
  for (const [position, lane] of decisions) {
    if (recorded.has(position)) continue;
    if (!(await recordDecision(store, round, position, lane))) return false;
    recorded.add(position);
  }
  return true;
}

async function recordDecision(
  store: ObjectStore,
  round: Round,
  position: string,
  lane: number,
): Promise<boolean> {
  const key = runKey(round.run_id, `${round.number}/decided/${sha256(position).slice(0, 32)}.json`);
  if (await store.create(key, canonicalJson({ position, lane }))) return true;
  const found = await readJson(store, key);
  return isObject(found) && toDouble(found.lane) === lane;
}

async function readJson(store: ObjectStore, key: string): Promise<JsonValue> {
  const found = await store.read(key);
  return found ? parseStored(key, found) : null;
}
