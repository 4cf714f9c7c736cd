/** JSON Pointers as a tree that a document is matched against while it is read. */
import { unescapeSegment } from './json.ts';

/** A value that a pointer means or leads through. */
export interface Wanted {
  readonly parent: Wanted | null;
  readonly names: Map<string, Wanted>;
  readonly items: Map<number, Wanted>;
  /** what is wanted of every item that is not named */
  each: Wanted | null;
  /** called when a value that was read there has ended */
  onEnd: (() => void) | null;
  /** the names in UTF-8 */
  readonly members: { readonly name: Uint8Array; readonly wanted: Wanted }[];
  /** whether a name holds U+FFFD, for which other bytes can stand */
  odd: boolean;
  /** bytes that one of the names takes at most as a key */
  longestKey: number;
  /** offsets of the last value that was read there; -1: none */
  start: number;
  end: number;
  /** the index of the item that is being read, if it is a list */
  index: number;
}

/** The tree of the pointers, and what in it each of them means. Throws RangeError for a pointer that is none. */
export function wantedBy(pointers: readonly string[]): {
  root: Wanted;
  targets: ReadonlyMap<string, Wanted>;
} {
  const root = newWanted(null);
  return { root, targets: new Map(pointers.map((pointer) => [pointer, plant(root, pointer)])) };
}

function plant(root: Wanted, pointer: string): Wanted {
  if (pointer !== '' && !pointer.startsWith('/'))
    throw new RangeError(`pointer '${pointer}' does not begin with '/'`);
  let at = root;
  for (const segment of pointer.split('/').slice(1)) {
    const name = unescapeSegment(segment);
    at = at.names.get(name) ?? addMember(at, name);
  }
  return at;
}

function addMember(parent: Wanted, name: string): Wanted {
  const wanted = newWanted(parent);
  parent.names.set(name, wanted);
  parent.members.push({ name: Buffer.from(name), wanted });
  if (ARRAY_INDEX.test(name)) parent.items.set(Number(name), wanted);
  parent.odd ||= name.includes('\ufffd');
  parent.longestKey = Math.max(parent.longestKey, name.length * ESCAPE_BYTES);
  return wanted;
}
const ARRAY_INDEX = /^(0|[1-9]\d*)$/;
/** What a UTF-16 unit of a name takes at most, as `\u0000`. */
const ESCAPE_BYTES = 6;

function newWanted(parent: Wanted | null): Wanted {
  return {
    parent,
    names: new Map(),
    items: new Map(),
    each: null,
    onEnd: null,
    members: [],
    odd: false,
    longestKey: 0,
    start: -1,
    end: -1,
    index: 0,
  };
}

/** What is wanted of the member whose key stands there as it is written. */
export function memberAt(object: Wanted, key: Uint8Array): Wanted | null {
  if (key.length > object.longestKey) return null;
  for (const { name, wanted } of object.members) if (equals(name, key)) return wanted;
  const isEscaped = key.includes(BACKSLASH);
  if (!isEscaped && !object.odd) return null;
  const text = TEXT.decode(key);
  return object.names.get(isEscaped ? JSON.parse(`"${text}"`) : text) ?? null;
}
const BACKSLASH = 0x5c;
const TEXT = new TextDecoder('utf-8', { ignoreBOM: true });

function equals(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Whether the document has it: a value that stands before its parent was in an earlier one of duplicate keys. */
export function isHit(wanted: Wanted): boolean {
  let at = wanted;
  while (at.parent !== null && at.start > at.parent.start) at = at.parent;
  return at.parent === null;
}

/** What is wanted of an item of a list. */
export function itemAt(list: Wanted, index: number): Wanted | null {
  return list.items.get(index) ?? list.each;
}
