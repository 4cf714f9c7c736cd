/** Depth and size of JSON values that share parts: what they would be when written out. */
import { isRaw, type JsonValue, MAX_STORED_DEPTH } from '../json.ts';
import { FlowFailure } from './failure.ts';

/**
 * Characters of JSON that a context may stand for. Its parts are shared in memory, so that a short loop can
 * build one without end.
 */
export const MAX_SIZE = 2 ** 32;
/** Containers at least this large are remembered, so that a shared part is walked once. */
const WORTH_REMEMBERING = 256;

export interface Measure {
  /** nested containers; 0 for a scalar */
  readonly depth: number;
  /** about the characters of its JSON */
  readonly size: number;
}

const known = new WeakMap<object, Measure>();

/**
 * Measures a value; its objects do not change any more, except those in `changing`. Throws `FlowFailure` when
 * it is nested too deeply or too large to be stored.
 */
export function measure(value: JsonValue, changing?: WeakSet<object>): Measure {
  return walk(value, 0, changing);
}

/** Characters that a member adds besides its value, the comma included. */
export function keySize(key: string): number {
  return key.length + 5;
}

/** Refuses a size over `MAX_SIZE`. */
export function checkSize(size: number): void {
  if (size > MAX_SIZE) throw new FlowFailure(`the context would grow over ${MAX_SIZE} characters of JSON`);
}

/** Refuses a depth over `MAX_STORED_DEPTH`. */
export function checkDepth(depth: number): void {
  if (depth > MAX_STORED_DEPTH)
    throw new FlowFailure(`the context would be nested deeper than ${MAX_STORED_DEPTH} levels`);
}

function walk(value: JsonValue, level: number, changing: WeakSet<object> | undefined): Measure {
  if (typeof value === 'string') return { depth: 0, size: value.length + 2 };
  if (typeof value !== 'object' || value === null) return SHORT;
  if (isRaw(value)) return { depth: 0, size: value.rawJSON.length };
  const remembered = known.get(value);
  if (remembered !== undefined) return remembered;
  checkDepth(level + 1);
  let depth = 0;
  let size = 2;
  for (const item of Array.isArray(value) ? value : Object.values(value)) {
    const inner = walk(item, level + 1, changing);
    depth = Math.max(depth, inner.depth);
    size += inner.size;
  }
  if (Array.isArray(value)) size += value.length;
  else for (const key of Object.keys(value)) size += keySize(key);
  checkSize(size);
  checkDepth(depth + 1);
  const measured = { depth: depth + 1, size };
  if (size >= WORTH_REMEMBERING && !changing?.has(value)) known.set(value, measured);
  return measured;
}

const SHORT: Measure = { depth: 0, size: 5 };
