/**
 * Reads one JSON document of any size from bytes that come in chunks: whether it is one, and where in it the values
 * at some pointers stand. Memory does not grow with the document.
 */

/** Offsets in bytes from the beginning of the stream; `end` is the first byte after. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export type Scan =
  /** `found` has the pointers that are hit; of duplicate keys the last counts */
  | { readonly ok: true; readonly document: ByteRange; readonly found: ReadonlyMap<string, ByteRange> }
  /** `at` is the offset of what cannot stand there, or the length where the document ends early */
  | { readonly ok: false; readonly at: number; readonly message: string };

export interface JsonScanner {
  /** Takes the next bytes, cut anywhere; the chunk is not kept. False: no document, whatever follows. */
  push(chunk: Uint8Array): boolean;
  end(): Scan;
}

/** As many nested containers as foreign JSON may have. */
const MAX_DEPTH = 127;

const START = 0;
const VALUE = 1;
const ITEM_OR_END = 2;
const KEY = 3;
const KEY_OR_END = 4;
const COLON = 5;
const AFTER = 6;
const STRING = 7;
const NUMBER = 8;
const FINISH = 9;
const FAILED = 10;

/** What each state waits for, in the order of the states. */
const EXPECTED = [
  'a JSON value',
  'a JSON value',
  "a JSON value or ']'",
  'a key in double quotes',
  "a key in double quotes or '}'",
  "':'",
  "',' or the end of the list or object",
  'the rest of a string',
  "the rest of a number, ',' or the end of the list or object",
  'nothing after the document',
];

/**
 * The document may stand in Unicode white space, behind at most one byte-order mark, and nests at most `maxDepth`
 * containers. Bytes that are no UTF-8 may stand in strings, where they mean U+FFFD. Numbers outside the range of a
 * double and escapes of lone surrogates are refused. Pointers are RFC 6901 and reach own members and existing
 * indices. Throws RangeError for a pointer that is neither empty nor begins with `/`.
 */
export function createJsonScanner(pointers: readonly string[], maxDepth: number = MAX_DEPTH): JsonScanner {
  const scan = newReading(pointers, maxDepth);
  return { push: (chunk) => push(scan, chunk), end: () => end(scan) };
}

/** Where the reading of a document stands. */
interface Reading {
  readonly found: Map<string, ByteRange>;
  readonly maxDepth: number;
  readonly longestKey: number;
  readonly number: ReturnType<typeof createNumber>;
  /** of each open container: whether it is a list, where it begins, its items so far, what it is wanted for */
  readonly lists: Uint8Array;
  readonly starts: Float64Array;
  readonly counts: Float64Array;
  readonly inside: (Wanted | null)[];
  state: number;
  depth: number;
  /** what the value that is being read, or comes next, is wanted for, and where it begins */
  slot: Wanted | null;
  valueStart: number;
  inKey: boolean;
  /** whether there was a byte-order mark */
  marked: boolean;
  document: ByteRange;
  failure: Scan | null;
  /** the beginning of a token that the last chunk cut, and where it stands */
  carry: Uint8Array;
  offset: number;
}

function newReading(pointers: readonly string[], maxDepth: number): Reading {
  return {
    found: new Map(),
    maxDepth,
    longestKey: ESCAPED_BYTES * Math.max(0, ...pointers.map((pointer) => pointer.length)),
    number: createNumber(),
    lists: new Uint8Array(maxDepth + 1),
    starts: new Float64Array(maxDepth + 1),
    counts: new Float64Array(maxDepth + 1),
    inside: new Array<Wanted | null>(maxDepth + 1).fill(null),
    state: START,
    depth: 0,
    slot: wantedBy(pointers),
    valueStart: 0,
    inKey: false,
    marked: false,
    document: { start: 0, end: 0 },
    failure: null,
    carry: new Uint8Array(0),
    offset: 0,
  };
}

function push(scan: Reading, chunk: Uint8Array): boolean {
  if (scan.failure !== null) return false;
  const bytes = scan.carry.length === 0 ? chunk : Buffer.concat([scan.carry, chunk]);
  const n = bytes.length;
  let i = 0;
  if (scan.state === START) {
    i = skipAround(scan, bytes, i);
    if (i < n && !cutsSpace(bytes, i)) scan.state = VALUE;
  }
  if (scan.state !== START && scan.state !== FINISH) i = read(scan, bytes, i);
  if (scan.state === FINISH) {
    i = skipAround(scan, bytes, i);
    if (i < n && !cutsSpace(bytes, i)) unexpected(scan, i, bytes[i]!, FINISH);
  }
  scan.carry = new Uint8Array(bytes.subarray(i));
  scan.offset += i;
  return scan.failure === null;
}

function end(scan: Reading): Scan {
  const { carry, state, depth, slot } = scan;
  if (scan.failure !== null) return scan.failure;
  if (state === NUMBER && depth === 0) endNumber(scan, depth, slot, 0);
  else if (carry.length > 0 && (state === START || state === FINISH)) unexpected(scan, 0, carry[0]!, state);
  else if (state < FINISH) fail(scan, carry.length, `expected ${EXPECTED[state]}, found the end`);
  return scan.failure ?? { ok: true, document: scan.document, found: scan.found };
}

function fail(scan: Reading, at: number, message: string): number {
  scan.failure = { ok: false, at: scan.offset + at, message };
  return FAILED;
}

function unexpected(scan: Reading, at: number, byte: number, state: number): number {
  return fail(scan, at, `expected ${EXPECTED[state]}, found ${nameOf(byte)}`);
}

/** The index of what may not stand before or after the document. */
function skipAround(scan: Reading, bytes: Uint8Array, from: number): number {
  let i = from;
  for (let width = 1; width > 0; i += width) {
    width = spaceWidth(bytes, i);
    if (width === 0 && scan.state === START && !scan.marked && isByteOrderMark(bytes, i)) {
      scan.marked = true;
      width = 3;
    }
  }
  return i;
}

/** The state after the value that ends there. */
function endValue(scan: Reading, depth: number, slot: Wanted | null, end: number): number {
  const range = { start: scan.valueStart, end: scan.offset + end };
  if (slot !== null) for (const pointer of slot.pointers) scan.found.set(pointer, range);
  if (depth > 0) return AFTER;
  scan.document = range;
  return FINISH;
}

/** What is wanted of the member of that key; what an earlier one of the same key had is forgotten. */
function endKey(scan: Reading, depth: number, bytes: Uint8Array, start: number, end: number): Wanted | null {
  if (start === -1 || end - start > scan.longestKey) return null;
  const slot = memberAt(scan.inside[depth]!, bytes.subarray(start, end));
  if (slot !== null) for (const pointer of slot.below) scan.found.delete(pointer);
  return slot;
}

function endNumber(scan: Reading, depth: number, slot: Wanted | null, end: number): number {
  const wrong = scan.number.end();
  return wrong === null ? endValue(scan, depth, slot, end) : fail(scan, end, wrong);
}

/**
 * Reads the document from `from` on; the index of the first byte of a token that the end of `bytes` cuts. One loop
 * with its state in local variables, because that is three times as fast as one function for each kind of token.
 */
function read(scan: Reading, bytes: Uint8Array, from: number): number {
  const { lists, starts, counts, inside, number, offset } = scan;
  const n = bytes.length;
  const view = new DataView(bytes.buffer, bytes.byteOffset, n);
  let i = from;
  let now = scan.state;
  let slot = scan.slot;
  let inKey = scan.inKey;
  let depth = scan.depth;
  let isList = lists[depth] === 1;
  let wants = inside[depth]?.deeper ?? false;
  let keyStart = -1;
  while (i < n && now < FINISH) {
    const byte = bytes[i]!;
    if (now === STRING) {
      i = skipString(bytes, view, i);
      if (i === n) break;
      if (bytes[i] !== QUOTE) {
        const width = escapeWidth(bytes, i);
        if (width === CUT) break;
        if (width === BAD) now = fail(scan, i, stringFault(bytes[i]!));
        i += width;
        continue;
      }
      i++;
      if (inKey) {
        if (wants) slot = endKey(scan, depth, bytes, keyStart, i - 1);
        now = COLON;
        continue;
      }
    } else if (now <= ITEM_OR_END && (isDigit(byte) || byte === MINUS)) {
      if (slot !== null) scan.valueStart = offset + i;
      const end = skipNumber(bytes, view, i);
      if (end === i) {
        number.begin();
        now = NUMBER;
        continue;
      }
      i = end;
    } else if (now === NUMBER) {
      i = number.take(bytes, i);
      if (i === n) break;
      now = endNumber(scan, depth, slot, i);
      continue;
    } else if (byte <= SPACE) {
      if (!isSpace(byte)) now = unexpected(scan, i, byte, now);
      do i++;
      while (i < n && bytes[i] === SPACE);
      continue;
    } else if (now === COLON) {
      if (byte === 0x3a) {
        now = VALUE;
        i++;
      } else now = unexpected(scan, i, byte, now);
      continue;
    } else if (now === AFTER && byte === COMMA) {
      now = isList ? VALUE : KEY;
      i++;
      if (wants && isList) slot = inside[depth]!.items.get(++counts[depth]!) ?? null;
      continue;
    } else if (now !== VALUE && now !== KEY && byte === (isList ? 0x5d : 0x7d)) {
      slot = inside[depth]!;
      if (slot !== null) scan.valueStart = starts[depth]!;
      depth--;
      isList = lists[depth] === 1;
      wants = inside[depth]?.deeper ?? false;
      i++;
    } else if (now === AFTER) {
      now = unexpected(scan, i, byte, now);
      continue;
    } else if (byte === QUOTE) {
      inKey = now === KEY || now === KEY_OR_END;
      i++;
      if (inKey) keyStart = i;
      else if (slot !== null) scan.valueStart = offset + i - 1;
      i = skipString(bytes, view, i);
      if (i === n || bytes[i] !== QUOTE || (inKey && wants)) {
        now = STRING;
        continue;
      }
      i++;
      if (inKey) {
        now = COLON;
        if (i < n && bytes[i] === 0x3a) {
          now = VALUE;
          i++;
        }
        continue;
      }
    } else if (now === KEY || now === KEY_OR_END) {
      now = unexpected(scan, i, byte, now);
      continue;
    } else if (byte === 0x7b || byte === 0x5b) {
      if (depth === scan.maxDepth) {
        now = fail(scan, i, `nested deeper than ${depth} levels`);
        break;
      }
      depth++;
      isList = byte === 0x5b;
      wants = slot?.deeper ?? false;
      lists[depth] = isList ? 1 : 0;
      starts[depth] = offset + i;
      inside[depth] = slot;
      counts[depth] = 0;
      if (slot !== null) slot = (isList && slot.items.get(0)) || null;
      now = isList ? ITEM_OR_END : KEY_OR_END;
      i++;
      continue;
    } else {
      if (slot !== null) scan.valueStart = offset + i;
      const width = wordWidth(bytes, i);
      if (width === CUT) break;
      if (width === BAD) {
        now = unexpected(scan, i, byte, now);
        break;
      }
      i += width;
    }
    if (slot !== null || depth === 0) now = endValue(scan, depth, slot, i);
    else if (!wants && i < n && bytes[i] === COMMA) {
      now = isList ? VALUE : KEY;
      i++;
    } else now = AFTER;
  }
  scan.state = now;
  scan.depth = depth;
  scan.slot = slot;
  scan.inKey = inKey;
  if (now !== STRING || !inKey || !wants || keyStart === -1 || n - keyStart > scan.longestKey) return i;
  scan.state = KEY;
  return keyStart - 1;
}

/** Pointers as a tree: what is wanted of a value, and of what lies in it. */
interface Wanted {
  /** the pointers that mean the value itself */
  readonly pointers: string[];
  /** those and all that lead into it */
  readonly below: string[];
  readonly names: Map<string, Wanted>;
  readonly items: Map<number, Wanted>;
  /** the names in UTF-8 */
  readonly members: { readonly name: Uint8Array; readonly wanted: Wanted }[];
  /** whether a name holds U+FFFD, for which other bytes can stand */
  odd: boolean;
  /** whether something is wanted of what lies in it */
  deeper: boolean;
}

function wantedBy(pointers: readonly string[]): Wanted {
  const root = newWanted();
  for (const pointer of new Set(pointers)) {
    if (pointer !== '' && !pointer.startsWith('/'))
      throw new RangeError(`pointer '${pointer}' does not begin with '/'`);
    let at = root;
    at.below.push(pointer);
    for (const segment of pointer.split('/').slice(1)) {
      const name = segment.replaceAll('~1', '/').replaceAll('~0', '~');
      const wanted = at.names.get(name) ?? newWanted();
      if (!at.names.has(name)) at.members.push({ name: UTF8.encode(name), wanted });
      at.names.set(name, wanted);
      if (ARRAY_INDEX.test(name)) at.items.set(Number(name), wanted);
      at.odd ||= name.includes('\ufffd');
      at.deeper = true;
      at = wanted;
      at.below.push(pointer);
    }
    at.pointers.push(pointer);
  }
  return root;
}
const ARRAY_INDEX = /^(0|[1-9]\d*)$/;
const UTF8 = new TextEncoder();

function newWanted(): Wanted {
  return {
    pointers: [],
    below: [],
    names: new Map(),
    items: new Map(),
    members: [],
    odd: false,
    deeper: false,
  };
}

/** What is wanted of the member whose key stands there as it is written. */
function memberAt(object: Wanted, key: Uint8Array): Wanted | null {
  for (const { name, wanted } of object.members) if (equals(name, key)) return wanted;
  const isEscaped = key.includes(BACKSLASH);
  if (!isEscaped && !object.odd) return null;
  const text = TEXT.decode(key);
  return object.names.get(isEscaped ? JSON.parse(`"${text}"`) : text) ?? null;
}
const TEXT = new TextDecoder('utf-8', { ignoreBOM: true });
/** What a UTF-16 unit of a name takes at most, as `\u0000`. */
const ESCAPED_BYTES = 6;

function equals(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Width of a token that is not there, and of one that the end of the bytes cuts. */
const BAD = -1;
const CUT = -2;

/** The index of what is no plain text of a string: a quote, a control character, a rare escape, or the end. */
function skipString(bytes: Uint8Array, view: DataView, from: number): number {
  const n = bytes.length;
  let i = from;
  for (;;) {
    while (i + 4 <= n && isPlain(view.getInt32(i, true))) i += 4;
    while (i < n && SPECIAL[bytes[i]!] === 0) i++;
    if (i + 6 > n || bytes[i] !== BACKSLASH) return i;
    const width = escapeWidth(bytes, i);
    if (width <= 0) return i;
    i += width;
  }
}

/** Whether none of four bytes is a quote, a backslash or a control character. */
function isPlain(four: number): boolean {
  const quotes = (four ^ 0x22222222) - 0x01010101;
  const slashes = (four ^ 0x5c5c5c5c) - 0x01010101;
  return (((four - 0x20202020) | quotes | slashes) & ~four & 0x80808080) === 0;
}

/** Width of the escape at `i`, a pair of surrogates together. */
function escapeWidth(bytes: Uint8Array, i: number): number {
  const n = bytes.length;
  if (bytes[i] !== BACKSLASH) return BAD;
  if (i + 1 === n) return CUT;
  if (bytes[i + 1] !== 0x75) return SIMPLE_ESCAPES[bytes[i + 1]!] === 1 ? 2 : BAD;
  const unit = escapedUnit(bytes, i);
  if (unit < 0xd800 || unit > 0xdfff) return unit < 0 ? unit : 6;
  if (unit >= 0xdc00) return BAD;
  const low = escapedUnit(bytes, i + 6);
  if (low < 0) return low;
  return low >= 0xdc00 && low <= 0xdfff ? 12 : BAD;
}

/** The UTF-16 unit that is written as `\uXXXX` at `from`. */
function escapedUnit(bytes: Uint8Array, from: number): number {
  let unit = 0;
  for (let k = 0; k < 6; k++) {
    if (from + k >= bytes.length) return CUT;
    const byte = bytes[from + k]!;
    if (k > 1) unit = unit * 16 + HEX[byte]!;
    else if (byte !== (k === 0 ? BACKSLASH : 0x75)) return BAD;
    if (unit < 0) return BAD;
  }
  return unit;
}

/** Width of `true`, `false` or `null`. */
function wordWidth(bytes: Uint8Array, from: number): number {
  const word = WORDS.find((known) => known[0] === bytes[from]);
  if (word === undefined) return BAD;
  for (let k = 1; k < word.length; k++) {
    if (from + k >= bytes.length) return CUT;
    if (bytes[from + k] !== word[k]) return BAD;
  }
  return word.length;
}

/** Width of Unicode White_Space; 0 where none stands. */
function spaceWidth(bytes: Uint8Array, i: number): number {
  const byte = bytes[i] ?? 0;
  if (byte < 0x80) return byte === SPACE || (byte >= 0x09 && byte <= 0x0d) ? 1 : 0;
  const two = byte * 256 + (bytes[i + 1] ?? 0);
  if (two === 0xc285 || two === 0xc2a0) return 2;
  return WIDE_SPACES.has(two * 256 + (bytes[i + 2] ?? 0)) ? 3 : 0;
}

function isByteOrderMark(bytes: Uint8Array, i: number): boolean {
  return bytes[i] === 0xef && bytes[i + 1] === 0xbb && bytes[i + 2] === 0xbf;
}

/** Whether the end of the bytes may cut white space or a byte-order mark that begins at `i`. */
function cutsSpace(bytes: Uint8Array, i: number): boolean {
  return bytes[i]! >= 0x80 && bytes.length - i < 3;
}

/** The index after a number that does not reach the end of the bytes and surely fits a double, else `from`. */
function skipNumber(bytes: Uint8Array, view: DataView, from: number): number {
  const n = bytes.length;
  const first = bytes[from] === MINUS ? from + 1 : from;
  let i = first;
  while (i < n && isDigit(bytes[i]!)) i++;
  const digits = i - first;
  if (digits === 0 || digits > SURE_DIGITS || (digits > 1 && bytes[first] === ZERO_DIGIT)) return from;
  if (i < n && bytes[i] === POINT_MARK) {
    const point = i++;
    while (i + 4 <= n && areDigits(view.getInt32(i, true))) i += 4;
    while (i < n && isDigit(bytes[i]!)) i++;
    if (i === point + 1) return from;
  }
  return i === n || (bytes[i]! | 0x20) === 0x65 ? from : i;
}
/** Whether four bytes are digits. */
function areDigits(four: number): boolean {
  return (four & 0xf0f0f0f0) === 0x30303030 && ((four + 0x06060606) & 0xf0f0f0f0) === 0x30303030;
}

/** Reads one number, of any length, and tells whether a double can hold it. */
function createNumber() {
  let phase = SIGN;
  /** the value is 0.d1d2d3… times 10 to the `power`, d1 being the first digit that is not 0 */
  let power = 0;
  let exponent = 0;
  let negative = false;
  let zero = true;
  /** digits that equal those of the limit, and how the first other one compares */
  let same = 0;
  let order = 0;

  /** Takes digits that count; the index of what follows. */
  const significant = (chunk: Uint8Array, from: number): number => {
    let i = from;
    for (; order === 0 && i < chunk.length && isDigit(chunk[i]!); i++) {
      if (same === LIMIT.length) order = 1;
      else if (chunk[i] === LIMIT[same]) same++;
      else order = chunk[i]! - LIMIT[same]!;
    }
    while (i < chunk.length && isDigit(chunk[i]!)) i++;
    return i;
  };
  return {
    begin: (): void => {
      phase = SIGN;
      power = 0;
      exponent = 0;
      negative = false;
      zero = true;
      same = 0;
      order = 0;
    },
    /** Takes what belongs to the number; the index of what does not. */
    take: (chunk: Uint8Array, from: number): number => {
      let i = from;
      while (i < chunk.length) {
        const byte = chunk[i]!;
        const digit = isDigit(byte);
        switch (phase) {
          case SIGN:
            if (byte === 0x2d) i++;
            phase = FIRST;
            break;
          case FIRST:
            if (!digit) return i;
            phase = byte === 0x30 ? ZERO : WHOLE;
            if (byte === 0x30) i++;
            else zero = false;
            break;
          case WHOLE: {
            const end = significant(chunk, i);
            power += end - i;
            i = end;
            if (i < chunk.length) phase = ZERO;
            break;
          }
          case ZERO:
            if (byte === 0x2e) phase = POINT;
            else if (byte === 0x65 || byte === 0x45) phase = MARK;
            else return i;
            i++;
            break;
          case POINT:
          case FRACTION:
            if (!digit && phase === POINT) return i;
            phase = FRACTION;
            if (zero && byte === 0x30) {
              power--;
              i++;
            } else if (digit) {
              zero = false;
              i = significant(chunk, i);
            } else if (byte === 0x65 || byte === 0x45) {
              phase = MARK;
              i++;
            } else return i;
            break;
          case MARK:
            negative = byte === 0x2d;
            if (byte === 0x2d || byte === 0x2b) i++;
            phase = SIGNED;
            break;
          default:
            if (!digit) return i;
            phase = POWER;
            exponent = Math.min(exponent * 10 + byte - 0x30, MAX_EXPONENT);
            i++;
        }
      }
      return i;
    },
    /** What is wrong with the number that ends here; null: nothing. */
    end: (): string | null => {
      if (!COMPLETE.has(phase)) return 'expected a digit';
      const size = power + (negative ? -exponent : exponent) - LIMIT.length;
      const fits = zero || size < 0 || (size === 0 && order <= 0 && same < LIMIT.length);
      return fits ? null : 'number outside the range of a double';
    },
  };
}
const SIGN = 0;
const FIRST = 1;
const WHOLE = 2;
const ZERO = 3;
const POINT = 4;
const FRACTION = 5;
const MARK = 6;
const SIGNED = 7;
const POWER = 8;
const COMPLETE = new Set([WHOLE, ZERO, FRACTION, POWER]);
/** More than any text has digits. */
const MAX_EXPONENT = 1e15;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const SPACE = 0x20;
const MINUS = 0x2d;
const POINT_MARK = 0x2e;
const ZERO_DIGIT = 0x30;
/** Whole digits with which a number without an exponent is within a double. */
const SURE_DIGITS = 308;

const ascii = (text: string): Uint8Array => UTF8.encode(text);
const flags = (text: string): Uint8Array => {
  const table = new Uint8Array(256);
  for (const byte of ascii(text)) table[byte] = 1;
  return table;
};
/** The digits of the smallest number that rounds to infinity. */
const LIMIT = ascii(String(2n ** 1024n - 2n ** 970n));
const WORDS = ['true', 'false', 'null'].map(ascii);
const SIMPLE_ESCAPES = flags('"\\/bfnrt');
/** Bytes that are no plain text of a string. */
const SPECIAL = flags('"\\').fill(1, 0, SPACE);
const HEX = new Int32Array(256).fill(-(16 ** 5));
for (const digit of ascii('0123456789abcdefABCDEF'))
  HEX[digit] = Number.parseInt(String.fromCharCode(digit), 16);
/** Three bytes of UTF-8 that are Unicode White_Space. */
const WIDE_SPACES = new Set([
  0xe19a80, 0xe28080, 0xe28081, 0xe28082, 0xe28083, 0xe28084, 0xe28085, 0xe28086, 0xe28087, 0xe28088,
  0xe28089, 0xe2808a, 0xe280a8, 0xe280a9, 0xe280af, 0xe2819f, 0xe38080,
]);

function isSpace(byte: number): boolean {
  return byte === SPACE || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function nameOf(byte: number): string {
  const isPrintable = byte > SPACE && byte < 0x7f;
  return isPrintable ? `'${String.fromCharCode(byte)}'` : `byte 0x${byte.toString(16).padStart(2, '0')}`;
}

function stringFault(byte: number): string {
  return byte === BACKSLASH
    ? 'bad escape or lone surrogate in a string'
    : `${nameOf(byte)} in a string, unescaped`;
}
