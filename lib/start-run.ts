/** Sets a run up in the store: its record and its Blueprint; the same wherever it then runs. */
import { StepspawnError } from './errors.ts';
import { canonicalJson, digest, type JsonObject, type JsonValue } from './json.ts';
import { checkSecrets, findBlueprint } from './prepare.ts';
import { initialContext } from './step.ts';
import { blueprintKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { openRound, type Round, type RunRecord } from './store/run-store.ts';
import { RUN_ID } from './task.ts';
import type { Blueprint } from './validate.ts';

export const DEFAULT_RUN_TTL_SECS = 1800;

export interface RunRequest {
  /** matches RUN_ID */
  readonly run_id: string;
  /** the document, or {digest} of a registered one */
  readonly blueprint: JsonValue;
  /** merged over the document's default_init_ctx */
  readonly ctx?: JsonValue | undefined;
  /** launch context: work_dir, project_root, task_metadata */
  readonly context?: JsonObject | undefined;
  readonly ttl_secs?: number | undefined;
  /** gives the steps that ended a failed run a new attempt */
  readonly retry?: boolean | undefined;
}

/** A run as far as it is set up: its record and Blueprint lie in the store. */
export interface StartedRun {
  readonly blueprint: Blueprint;
  readonly record: Omit<RunRecord, 'created_at'>;
  readonly round: Round;
}

/**
 * Sets a run up, or finds it; with `secretNames`, every secret of the document must be one of them. Throws InvalidBlueprint, InvalidTask (its id), AttemptConflict and StoreUnavailable.
 */
export async function startRun(
  request: RunRequest,
  store: ObjectStore,
  secretNames?: ReadonlySet<string>,
): Promise<StartedRun> {
  const { run_id, context = {} } = request;
  if (!RUN_ID.test(run_id))
    throw new StepspawnError('InvalidTask', `run id '${run_id}' does not match ${RUN_ID.source}`);
  const blueprint = await findBlueprint(request.blueprint, store);
  const { compiled, digest: blueprint_digest, document } = blueprint;
  if (secretNames) for (const agent of Object.values(compiled.agents)) checkSecrets(agent, secretNames);
  const ctx = initialContext(blueprint, request.ctx);
  const ttl_secs = request.ttl_secs ?? compiled.default_run_ttl_secs ?? DEFAULT_RUN_TTL_SECS;
  const request_digest = digest({ blueprint: blueprint_digest, ctx, context });
  const record = { request_digest, blueprint_digest, ctx, context, ttl_secs };
  await store.create(blueprintKey(blueprint_digest), canonicalJson(document));
  return { blueprint, record, round: await openRound(store, run_id, record, request.retry === true) };
}
