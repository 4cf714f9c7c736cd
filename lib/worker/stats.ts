/** What a run tells about itself: model, tokens, turns. It never changes value or ok. */
import type { SubprocessOutput } from '../blueprint/schema.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import { isObject, isRaw, member } from '../json.ts';
import type { ExitStatus, Stats, Usage } from '../task.ts';
import { head } from './text.ts';

/** Where the child's JSON holds its numbers. */
type StatsPointers = NonNullable<SubprocessOutput['stats']>;

/** Bytes of JSON that `adapter_data` may have; a larger one is replaced by its head. */
const ADAPTER_DATA_BYTES = 8192;
const HEAD_CHARACTERS = 1024;

/** The stats of every run: the declared model and the exit code. */
export function baseStats(exit: ExitStatus, model: string | null): Stats {
  const stats: Stats = { worker_kind: 'subprocess', adapter_data: { exit_code: exit.code } };
  return model === null ? stats : { ...stats, model };
}

/** The stats with what the child's JSON reports on top; misses and unusable values are left out silently. */
export function readStats(
  base: Stats,
  pointers: StatsPointers,
  find: (pointer: string) => JsonValue | undefined,
): Stats {
  const at = (pointer: string | null | undefined) => (pointer == null ? undefined : find(pointer));
  const model = at(pointers.model_ptr);
  const turns = count(at(pointers.num_turns_ptr));
  const raw = at(pointers.usage_ptr);
  const usage = isObject(raw) ? readUsage(raw) : undefined;
  return {
    ...base,
    ...(typeof model === 'string' && { model }),
    ...(turns !== undefined && { num_turns: turns }),
    ...(usage !== undefined && { usage }),
    adapter_data: bounded(
      usage === undefined || raw === undefined ? base.adapter_data : { ...base.adapter_data, usage_raw: raw },
    ),
  };
}

function readUsage(raw: JsonObject): Usage | undefined {
  const first = (...keys: string[]) =>
    keys.map((key) => count(member(raw, key))).find((value) => value !== undefined);
  const input = first('input_tokens', 'prompt_tokens');
  const output = first('output_tokens', 'completion_tokens');
  const total = first('total_tokens');
  if (input === undefined && output === undefined && total === undefined) return undefined;
  return {
    input_tokens: input ?? 0,
    output_tokens: output ?? 0,
    total_tokens: total ?? Math.min((input ?? 0) + (output ?? 0), Number.MAX_SAFE_INTEGER),
  };
}

/** A whole number of at least 0 in integer spelling, saturated at 2^53 - 1; undefined for all else. */
function count(value: JsonValue | undefined): number | undefined {
  if (typeof value !== 'number' && !isRaw(value)) return undefined;
  const text = isRaw(value) ? value.rawJSON : String(value);
  return /^\d+$/.test(text) ? Math.min(Number(text), Number.MAX_SAFE_INTEGER) : undefined;
}

function bounded(adapterData: JsonObject): JsonObject {
  const text = JSON.stringify(adapterData);
  const size = Buffer.byteLength(text);
  if (size <= ADAPTER_DATA_BYTES) return adapterData;
  return { truncated: true, size_bytes: size, head: head(text, HEAD_CHARACTERS) };
}
