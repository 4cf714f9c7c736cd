/** From a step's evaluated `in` to its directive and its own context. */
import { canonicalJson, isObject, type JsonObject, type JsonValue, member, setMember } from '../json.ts';
import { FlowFailure, typeName } from './failure.ts';

export interface StepInput {
  /** the directive: what `{prompt}` shows */
  readonly in: JsonValue;
  /** what `$step_meta` says about the step; null when it says nothing */
  readonly step_ctx: JsonObject | null;
}

/**
 * Takes `$step_meta` out of an input; `metas` maps the names of the Blueprint's metas to their ctx. Throws
 * `FlowFailure` for a `$step_meta` of the wrong shape or an unknown ref.
 */
export function stepInput(value: JsonValue, metas: ReadonlyMap<string, JsonValue>): StepInput {
  const meta = isObject(value) ? member(value, '$step_meta') : undefined;
  if (!isObject(value) || meta === undefined) return { in: value, step_ctx: null };
  if (!isObject(meta)) throw new FlowFailure(`$step_meta must be an object, not ${typeName(meta)}`);
  return { in: directive(value), step_ctx: stepContext(meta, metas) };
}

/** What `{prompt}` shows: a string verbatim, anything else as compact JSON with sorted keys. */
export function promptText(value: JsonValue): string {
  return typeof value === 'string' ? value : canonicalJson(value);
}

function directive(value: JsonObject): JsonValue {
  const explicit = member(value, '$in');
  if (explicit !== undefined) return explicit;
  const rest: JsonObject = {};
  for (const key of Object.keys(value)) if (key !== '$step_meta') setMember(rest, key, value[key]!);
  return Object.keys(rest).length === 0 ? '' : rest;
}

function stepContext(meta: JsonObject, metas: ReadonlyMap<string, JsonValue>): JsonObject | null {
  const ref = member(meta, 'ref') ?? null;
  const inline = member(meta, 'inline') ?? null;
  if (ref !== null && typeof ref !== 'string')
    throw new FlowFailure(`$step_meta.ref must be a string, not ${typeName(ref)}`);
  if (inline !== null && !isObject(inline))
    throw new FlowFailure(`$step_meta.inline must be an object, not ${typeName(inline)}`);
  if (ref === null) return inline;
  const base = metas.get(ref);
  if (base === undefined) {
    const names = [...metas.keys()].map((name) => JSON.stringify(name)).join(' ') || 'none are defined';
    throw new FlowFailure(`$step_meta.ref ${JSON.stringify(ref)} names no entry of metas: ${names}`);
  }
  if (!isObject(base))
    throw new FlowFailure(`metas ${JSON.stringify(ref)} must be an object, not ${typeName(base)}`);
  return { ...base, ...inline };
}
