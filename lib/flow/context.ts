/**
 * The context of one lane: reads, and writes that copy only what somebody else may see. Objects that this
 * context made itself are *owned* and changed in place; an object that is not owned has no owned part.
 */
import type { Expr, LetNode, PathExpr } from '../blueprint/flow-schema.ts';
import { formatPath, parseLetPath, parsePath } from '../blueprint/path.ts';
import { isObject, type JsonObject, type JsonValue, member, setMember } from '../json.ts';
import { FlowFailure, typeName } from './failure.ts';
import { checkDepth, checkSize, keySize, measure } from './measure.ts';

/** A state: nobody changes what it holds. */
export interface Snapshot {
  readonly root: JsonValue;
  /** about the characters of the root's JSON */
  readonly size: number;
}

export interface Context {
  root: JsonValue;
  size: number;
  owned: WeakSet<object>;
  /** states that `rollback` can bring back, the innermost last */
  readonly marks: Mark[];
}

/** How to get back to a state: its root, and the first values of the members that were changed in place. */
export interface Mark {
  root: JsonValue;
  readonly size: number;
  readonly old: Map<JsonObject, Map<string, JsonValue | undefined>>;
  /** objects made since: nothing to bring back in them */
  readonly made: WeakSet<object>;
}

/** A context over a value of the caller's, which is never changed. */
export function openContext(root: JsonValue): Context {
  return fork({ root, size: measure(root).size });
}

/** A private context that starts at a saved state. */
export function fork({ root, size }: Snapshot): Context {
  return { root, size, owned: new WeakSet(), marks: [] };
}

/** The value at a path. Throws `FlowFailure` of kind `path_missing` for a miss. */
export function read(context: Context, path: PathExpr): JsonValue {
  let at = context.root;
  for (const key of pathKeys(path)) {
    const next = isObject(at) ? member(at, key) : undefined;
    if (next === undefined) throw new FlowFailure(`path not found: ${path.at}`, 'path_missing');
    at = next;
  }
  return at;
}

/** The value as it may be stored elsewhere or handed out: owned objects, which may still change, are copied. */
export function share(context: Context, value: JsonValue): JsonValue {
  if (!isObject(value) || !context.owned.has(value)) return value;
  const copy: JsonObject = {};
  for (const key of Object.keys(value)) setMember(copy, key, share(context, value[key]!));
  return copy;
}

/**
 * Writes a shared value. Missing and null objects on the way are made; any other value on the way is a
 * `FlowFailure`, as is a context that would become too deep or too large, and then nothing has changed.
 */
export function write(context: Context, target: Expr | LetNode, value: JsonValue): void {
  const keys = targetKeys(target);
  const added = measure(value);
  checkDepth(keys.length + added.depth);
  const size = keys.length === 0 ? added.size : context.size + added.size + growth(context, keys);
  checkSize(size);
  context.size = size;
  const last = keys.at(-1);
  if (last === undefined) {
    context.root = value;
    return;
  }
  let at = own(context, context.root);
  context.root = at;
  for (const key of keys.slice(0, -1)) {
    const next = own(context, member(at, key) ?? null);
    set(context, at, key, next);
    at = next;
  }
  set(context, at, last, value);
}

/** What the way to the place adds to the size, less the value that is replaced. */
function growth({ root, owned }: Context, keys: readonly string[]): number {
  let at: JsonValue | undefined = root;
  let size = 0;
  for (const [i, key] of keys.entries()) {
    if (at === undefined || at === null) {
      size += 2 - (at === null ? measure(at).size : 0) + keySize(key);
      at = undefined;
      continue;
    }
    if (!isObject(at)) {
      const [whole, part] = [formatPath(keys), formatPath(keys.slice(0, i))];
      throw new FlowFailure(`cannot write ${whole}: ${part} is not an object but ${typeName(at)}`);
    }
    at = member(at, key);
    if (at === undefined) size += keySize(key);
  }
  return at === undefined ? size : size - measure(at, owned).size;
}

/** The object itself when it is owned, else a copy that is. */
function own(context: Context, value: JsonValue): JsonObject {
  if (isObject(value) && context.owned.has(value)) return value;
  const copy = isObject(value) ? { ...value } : {};
  context.owned.add(copy);
  for (const mark of context.marks) mark.made.add(copy);
  return copy;
}

/** Sets a member of an owned object. */
function set(context: Context, object: JsonObject, key: string, value: JsonValue): void {
  const before = member(object, key);
  if (before === value) return;
  const mark = context.marks.at(-1);
  if (mark) remember(mark, object, new Map([[key, before]]));
  setMember(object, key, value);
}

/** Adds first values of an object's members to a mark that does not know them yet. */
export function remember(
  { old, made }: Mark,
  object: JsonObject,
  members: Map<string, JsonValue | undefined>,
): void {
  if (made.has(object)) return;
  const known = old.get(object);
  if (known === undefined) old.set(object, members);
  else for (const [key, value] of members) if (!known.has(key)) known.set(key, value);
}

function targetKeys(target: Expr | LetNode): readonly string[] {
  if ('kind' in target || target.op === 'path') return pathKeys(target);
  throw new FlowFailure(`a write target must be a path expression, not op "${target.op}"`);
}

const parsed = new WeakMap<object, readonly string[]>();

function pathKeys(path: PathExpr | LetNode): readonly string[] {
  let keys = parsed.get(path);
  if (keys === undefined) {
    const result = 'kind' in path ? parseLetPath(path.at) : parsePath(path.at);
    if (!result.ok) throw new FlowFailure(result.message);
    keys = result.keys;
    parsed.set(path, keys);
  }
  return keys;
}
