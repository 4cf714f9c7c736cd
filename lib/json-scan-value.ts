/** The grammar of JSON text: one value with all that lies in it, from bytes that come in chunks. */
import { createNumberReader, type NumberReader, skipNumber } from './json-scan-number.ts';
import { itemAt, memberAt, type Wanted } from './json-scan-pointer.ts';
import { BAD, CUT, escapeWidth, nameOf, skipString, stringFault, wordWidth } from './json-scan-token.ts';

/** Where the reading of a value stands. */
export interface Reading {
  readonly maxDepth: number;
  readonly number: NumberReader;
  /** of each open container, by depth: whether it is a list, and what it is wanted for */
  readonly lists: Uint8Array;
  readonly inside: (Wanted | null)[];
  state: number;
  depth: number;
  /** what the value that is being read, or comes next, is wanted for */
  slot: Wanted | null;
  /** offset in the stream of the bytes that are being read */
  offset: number;
  failure: { readonly at: number; readonly message: string } | null;
}

/** What a reading waits for: a state. */
const VALUE = 0;
const ITEM_OR_END = 1;
const KEY = 2;
const KEY_OR_END = 3;
const NEXT_COLON = 4;
const AFTER = 5;
const IN_NUMBER = 6;
const IN_STRING = 7;
const IN_KEY = 8;
const DONE = 9;

/** The words for it, in the same order. */
const EXPECTED = [
  'a JSON value',
  "a JSON value or ']'",
  'a key in double quotes',
  "a key in double quotes or '}'",
  "':'",
  "',' or the end of the list or object",
  "the rest of a number, ',' or the end of the list or object",
  'the rest of a string',
  'the rest of a string',
  'nothing after the document',
];

/** A reading of one value, wanted for `root`, that nests at most `maxDepth` containers. */
export function newReading(root: Wanted, maxDepth: number): Reading {
  return {
    maxDepth,
    number: createNumberReader(),
    lists: new Uint8Array(maxDepth + 1),
    inside: new Array<Wanted | null>(maxDepth + 1).fill(null),
    state: VALUE,
    depth: 0,
    slot: root,
    offset: 0,
    failure: null,
  };
}

/** Makes the reading one of another value that begins at or after an offset. */
export function restartReading(reading: Reading, root: Wanted, offset: number): void {
  Object.assign(reading, { state: VALUE, depth: 0, slot: root, offset, failure: null });
}

/**
 * Reads on from `from`; the index of the first byte of a token that the end of `bytes` cuts, which the next bytes
 * must begin with. One loop with its state in local variables, because that is three times as fast as one function
 * for each kind of token.
 */
export function readValue(reading: Reading, bytes: Uint8Array, from: number): number {
  const { lists, inside, number, offset } = reading;
  const n = bytes.length;
  const view = new DataView(bytes.buffer, bytes.byteOffset, n);
  let i = from;
  let now = reading.state;
  let slot = reading.slot;
  let depth = reading.depth;
  let isList = lists[depth] === 1;
  let wants = leadsOn(inside[depth]);
  let keyStart = -1;
  while (i < n && now < DONE) {
    const byte = bytes[i]!;
    if (now >= IN_STRING) {
      i = skipString(bytes, view, i);
      if (i === n) break;
      if (bytes[i] !== QUOTE) {
        const width = escapeWidth(bytes, i);
        if (width === CUT) break;
        if (width === BAD) return fail(reading, i, stringFault(bytes[i]!));
        i += width;
        continue;
      }
      i++;
      if (now === IN_KEY) {
        if (wants) slot = keyStart === -1 ? null : memberAt(inside[depth]!, bytes.subarray(keyStart, i - 1));
        now = NEXT_COLON;
        continue;
      }
    } else if (now <= ITEM_OR_END && beginsNumber(byte)) {
      if (slot !== null) slot.start = offset + i;
      const end = skipNumber(bytes, view, i);
      if (end === i) {
        number.begin();
        now = IN_NUMBER;
        continue;
      }
      i = end;
    } else if (now === IN_NUMBER) {
      i = number.take(bytes, i);
      if (i === n) break;
      const fault = number.end();
      if (fault !== null) return fail(reading, i, fault);
    } else if (byte <= SPACE) {
      if (!isSpace(byte)) return unexpected(reading, i, byte, now);
      do i++;
      while (i < n && bytes[i] === SPACE);
      continue;
    } else if (now === NEXT_COLON) {
      if (byte !== COLON) return unexpected(reading, i, byte, now);
      now = VALUE;
      i++;
      continue;
    } else if (now === AFTER && byte === COMMA) {
      now = isList ? VALUE : KEY;
      i++;
      if (wants && isList) slot = itemAt(inside[depth]!, ++inside[depth]!.index);
      continue;
    } else if (now !== VALUE && now !== KEY && byte === (isList ? LIST_END : OBJECT_END)) {
      slot = inside[depth] ?? null;
      depth--;
      isList = lists[depth] === 1;
      wants = leadsOn(inside[depth]);
      i++;
    } else if (now === AFTER) return unexpected(reading, i, byte, now);
    else if (now === KEY || now === KEY_OR_END) {
      if (byte !== QUOTE) return unexpected(reading, i, byte, now);
      keyStart = ++i;
      now = IN_KEY;
      if (wants) continue;
      i = skipString(bytes, view, i);
      if (i === n || bytes[i] !== QUOTE) continue;
      i++;
      now = NEXT_COLON;
      if (i < n && bytes[i] === COLON) {
        now = VALUE;
        i++;
      }
      continue;
    } else if (byte === QUOTE) {
      if (slot !== null) slot.start = offset + i;
      i = skipString(bytes, view, i + 1);
      if (i === n || bytes[i] !== QUOTE) {
        now = IN_STRING;
        continue;
      }
      i++;
    } else if (byte === OBJECT_START || byte === LIST_START) {
      if (depth === reading.maxDepth) return fail(reading, i, `nested deeper than ${depth} levels`);
      depth++;
      isList = byte === LIST_START;
      wants = leadsOn(slot);
      lists[depth] = isList ? 1 : 0;
      inside[depth] = slot;
      if (slot !== null) {
        slot.start = offset + i;
        slot.index = 0;
        slot = isList ? itemAt(slot, 0) : null;
      }
      now = isList ? ITEM_OR_END : KEY_OR_END;
      i++;
      continue;
    } else {
      if (slot !== null) slot.start = offset + i;
      const width = wordWidth(bytes, i);
      if (width === CUT) break;
      if (width === BAD) return unexpected(reading, i, byte, now);
      i += width;
    }
    if (slot !== null) {
      slot.end = offset + i;
      slot.onEnd?.();
      now = depth > 0 ? AFTER : DONE;
    } else if (!wants && i < n && bytes[i] === COMMA) {
      now = isList ? VALUE : KEY;
      i++;
    } else now = AFTER;
  }
  reading.state = now;
  reading.depth = depth;
  reading.slot = slot;
  // a wanted key that the end cuts is read again as a whole, unless it is too long to be one
  const isKeyWhole = now === IN_KEY && wants && keyStart !== -1;
  if (!isKeyWhole || n - keyStart > inside[depth]!.longestKey) return i;
  reading.state = KEY;
  return keyStart - 1;
}

export function isDone(reading: Reading): boolean {
  return reading.state === DONE;
}

/** Ends the value with the stream, or fails as it lacks something; the last `left` bytes are no token yet. */
export function endReading(reading: Reading, left: number): void {
  const { state, depth, slot, number, offset } = reading;
  if (state === IN_NUMBER && depth === 0) {
    const fault = number.end();
    if (fault !== null) fail(reading, 0, fault);
    else if (slot !== null) slot.end = offset;
  } else if (state < DONE) fail(reading, left, `expected ${EXPECTED[state]}, found the end`);
}

function fail(reading: Reading, at: number, message: string): number {
  reading.failure = { at: reading.offset + at, message };
  return at;
}

export function unexpected(reading: Reading, at: number, byte: number, state: number): number {
  return fail(reading, at, `expected ${EXPECTED[state]}, found ${nameOf(byte)}`);
}

/** Whether something is wanted of what lies in it. */
function leadsOn(wanted: Wanted | null | undefined): boolean {
  return wanted != null && (wanted.members.length > 0 || wanted.each !== null);
}

function beginsNumber(byte: number): boolean {
  return byte === MINUS || (byte >= 0x30 && byte <= 0x39);
}

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Not shared with the other files: constants that are imported or exported make the loop a tenth slower. */
const SPACE = 0x20;
const QUOTE = 0x22;
const COMMA = 0x2c;
const MINUS = 0x2d;
const COLON = 0x3a;
const LIST_START = 0x5b;
const LIST_END = 0x5d;
const OBJECT_START = 0x7b;
const OBJECT_END = 0x7d;
