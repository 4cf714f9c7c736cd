/** What a run tells about itself: model, tokens, turns. It never changes value or ok. */
import type { SubprocessOutput } from '../blueprint/output-schema.ts';
import type { JsonObject, JsonValue } from '../json.ts';
import { isObject, isRaw, member, toDouble } from '../json.ts';
import { saturated, sumUsage } from '../spent.ts';
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
  const model = readModel(at(pointers.model_ptr));
  const turns = readTurns(at(pointers.num_turns_ptr));
  const cost = readCost(at(pointers.cost_ptr));
  const raw = at(pointers.usage_ptr);
  const usage = raw === undefined ? undefined : readUsage(raw);
  return {
    ...base,
    ...(model !== undefined && { model }),
    ...(turns !== undefined && { num_turns: turns }),
    ...(cost !== undefined && { cost_usd: cost }),
    ...(usage !== undefined && { usage }),
    adapter_data: bounded(
      usage === undefined || raw === undefined ? base.adapter_data : { ...base.adapter_data, usage_raw: raw },
    ),
  };
}

/** A name, or an object by model, whose first key it is. */
function readModel(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'string') return value;
  return isObject(value) ? Object.keys(value)[0] : undefined;
}

/** A count, or a list of which each item is a turn. */
function readTurns(value: JsonValue | undefined): number | undefined {
  return Array.isArray(value) ? value.length : count(value);
}

/** A price, or a list of them. */
function readCost(value: JsonValue | undefined): number | undefined {
  const prices = (Array.isArray(value) ? value : [value]).flatMap((each) => toDouble(each) ?? []);
  const total = prices.filter((price) => price >= 0).reduce((sum, price) => sum + price, 0);
  return prices.some((price) => price >= 0) && Number.isFinite(total) ? total : undefined;
}

/** How programs spell it; the first that is usable counts. */
const SPELLINGS = {
  input: [
    'input_tokens',
    'prompt_tokens',
    'inputTokens',
    'promptTokens',
    'promptTokenCount',
    'prompt',
    'input',
  ],
  output: [
    'output_tokens',
    'completion_tokens',
    'outputTokens',
    'completionTokens',
    'candidatesTokenCount',
    'completion',
    'candidates',
    'output',
  ],
  total: ['total_tokens', 'totalTokens', 'totalTokenCount', 'total'],
  cache_read: [
    'cache_read_input_tokens',
    'cached_input_tokens',
    'cacheReadInputTokens',
    'cacheReadTokens',
    'cachedContentTokenCount',
    'cached_tokens',
    'cacheRead',
    'cached_tokens',
    'cached',
  ],
  cache_write: [
    'cache_creation_input_tokens',
    'cache_write_input_tokens',
    'cacheCreationInputTokens',
    'cacheWriteTokens',
    'cacheWrite',
  ],
} as const;
/** Members that hold what their object used. */
const HOLDERS = ['tokens', 'usage'];
const LEVELS = 3;

/**
 * Tokens in any known spelling. An object that has none is looked at for a member `tokens` or `usage`, else for
 * members by model; a list is of turns. What is found is summed up.
 */
function readUsage(raw: JsonValue, levels = LEVELS): Usage | undefined {
  if (Array.isArray(raw)) return sumUsage(raw.map((item) => readUsage(item, levels - 1)));
  if (!isObject(raw) || levels === 0) return undefined;
  const own = readCounts(raw);
  if (own) return own;
  const held = HOLDERS.map((name) => member(raw, name)).find((value) => isObject(value));
  if (held !== undefined) return readUsage(held, levels - 1);
  return sumUsage(Object.values(raw).map((value) => readUsage(value, levels - 1)));
}

const NESTED_READS = [
  ['cache', 'read'],
  ['prompt_tokens_details', 'cached_tokens'],
  ['input_tokens_details', 'cached_tokens'],
] as const;

function nested(raw: JsonObject, places: readonly (readonly [string, string])[]): number | undefined {
  return places
    .map(([outer, inner]) => {
      const holder = member(raw, outer);
      return isObject(holder) ? count(member(holder, inner)) : undefined;
    })
    .find((tokens) => tokens !== undefined);
}

function readCounts(raw: JsonObject): Usage | undefined {
  const first = (keys: readonly string[]) =>
    keys.map((key) => count(member(raw, key))).find((value) => value !== undefined);
  const input = first(SPELLINGS.input);
  const output = first(SPELLINGS.output);
  const total = first(SPELLINGS.total);
  if (input === undefined && output === undefined && total === undefined) return undefined;
  const read = first(SPELLINGS.cache_read) ?? nested(raw, NESTED_READS);
  const write = first(SPELLINGS.cache_write) ?? nested(raw, [['cache', 'write']]);
  return {
    input_tokens: input ?? 0,
    output_tokens: output ?? 0,
    total_tokens: total ?? saturated((input ?? 0) + (output ?? 0)),
    ...(read !== undefined && { cache_read_tokens: read }),
    ...(write !== undefined && { cache_write_tokens: write }),
  };
}

/** A whole number of at least 0 in integer spelling, saturated at 2^53 - 1; undefined for all else. */
function count(value: JsonValue | undefined): number | undefined {
  if (typeof value !== 'number' && !isRaw(value)) return undefined;
  const text = isRaw(value) ? value.rawJSON : String(value);
  return /^\d+$/.test(text) ? saturated(Number(text)) : undefined;
}

function bounded(adapterData: JsonObject): JsonObject {
  const text = JSON.stringify(adapterData);
  const size = Buffer.byteLength(text);
  if (size <= ADAPTER_DATA_BYTES) return adapterData;
  return { truncated: true, size_bytes: size, head: head(text, HEAD_CHARACTERS) };
}
