/**
 * Reads one JSON document of any size from bytes that come in chunks: whether it is one, and where in it the values
 * at some pointers stand. Memory does not grow with the document.
 */
import { isHit, type Wanted, wantedBy } from './json-scan-pointer.ts';
import { endReading, isDone, newReading, type Reading, readValue, unexpected } from './json-scan-value.ts';

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

/** The elements of a top-level list, told one by one as each ends. */
export interface Items {
  /** what is looked for in each */
  readonly pointers: readonly string[];
  readonly onItem: (item: Match) => void;
}

/** A value, and where in it the pointers hit. */
export interface Match {
  readonly range: ByteRange;
  readonly found: ReadonlyMap<string, ByteRange>;
}

export interface JsonScanner {
  /** Takes the next bytes, cut anywhere; the chunk is not kept. False: no document, whatever follows. */
  push(chunk: Uint8Array): boolean;
  end(): Scan;
}

export interface ScanOptions {
  /** nested containers that there may be; as many as foreign JSON may have when absent */
  readonly maxDepth?: number;
  readonly items?: Items;
}

/** As many nested containers as foreign JSON may have. */
const MAX_DEPTH = 127;

/**
 * The document may stand in Unicode white space, behind at most one byte-order mark, and nests at most `maxDepth`
 * containers. Bytes that are no UTF-8 may stand in strings, where they mean U+FFFD. Numbers outside the range of a
 * double and escapes of lone surrogates are refused. Pointers are RFC 6901 and reach own members and existing
 * indices. Throws RangeError for a pointer that is neither empty nor begins with `/`.
 */
export function createJsonScanner(pointers: readonly string[], options: ScanOptions = {}): JsonScanner {
  const { maxDepth = MAX_DEPTH, items } = options;
  const { root, targets } = wantedBy(pointers);
  if (items) root.each = itemsFor(items);
  const reading = newReading(root, maxDepth);
  const stream: Stream = { reading, isMarked: false, isBegun: false, carry: new Uint8Array(0) };
  return {
    push: (chunk) => push(stream, chunk),
    end: () => {
      end(stream);
      if (reading.failure !== null) return { ok: false, ...reading.failure };
      return { ok: true, document: rangeOf(root), found: rangesOf(targets) };
    },
  };
}

function itemsFor({ pointers, onItem }: Items): Wanted {
  const { root: each, targets } = wantedBy(pointers);
  each.onEnd = () => onItem({ range: rangeOf(each), found: rangesOf(targets) });
  return each;
}

/** The stream of bytes with the document in it. */
interface Stream {
  readonly reading: Reading;
  /** whether there was a byte-order mark */
  isMarked: boolean;
  /** whether the document has begun */
  isBegun: boolean;
  /** the beginning of a token that the last chunk cut */
  carry: Uint8Array;
}

function push(stream: Stream, chunk: Uint8Array): boolean {
  const { reading, carry } = stream;
  if (reading.failure !== null) return false;
  const bytes = carry.length === 0 ? chunk : Buffer.concat([carry, chunk]);
  let i = 0;
  if (!stream.isBegun) {
    i = skipBefore(stream, bytes);
    stream.isBegun = !endsInSpace(bytes, i);
  }
  if (stream.isBegun && !isDone(reading)) i = readValue(reading, bytes, i);
  if (isDone(reading)) {
    i = skipSpace(bytes, i);
    if (!endsInSpace(bytes, i)) unexpected(reading, i, bytes[i]!, reading.state);
  }
  stream.carry = new Uint8Array(bytes.subarray(i));
  reading.offset += i;
  return reading.failure === null;
}

function end({ reading, isBegun, carry }: Stream): void {
  if (reading.failure !== null) return;
  const isAround = !isBegun || isDone(reading);
  if (isAround && carry.length > 0) unexpected(reading, 0, carry[0]!, reading.state);
  else endReading(reading, carry.length);
}

function rangesOf(targets: ReadonlyMap<string, Wanted>): Map<string, ByteRange> {
  const hits = [...targets].filter(([, wanted]) => isHit(wanted));
  return new Map(hits.map(([pointer, wanted]) => [pointer, rangeOf(wanted)]));
}

function rangeOf({ start, end }: Wanted): ByteRange {
  return { start, end };
}

function skipBefore(stream: Stream, bytes: Uint8Array): number {
  const i = skipSpace(bytes, 0);
  if (stream.isMarked || !isByteOrderMark(bytes, i)) return i;
  stream.isMarked = true;
  return skipSpace(bytes, i + 3);
}

function isByteOrderMark(bytes: Uint8Array, i: number): boolean {
  return bytes[i] === 0xef && bytes[i + 1] === 0xbb && bytes[i + 2] === 0xbf;
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let i = from;
  for (let width = spaceWidth(bytes, i); width > 0; width = spaceWidth(bytes, i)) i += width;
  return i;
}

/** Whether nothing follows, or what white space or a byte-order mark may begin with that the next bytes complete. */
function endsInSpace(bytes: Uint8Array, i: number): boolean {
  return i === bytes.length || (bytes[i]! >= 0x80 && bytes.length - i < 3);
}

/** Width of Unicode White_Space; 0 where none stands. */
function spaceWidth(bytes: Uint8Array, i: number): number {
  const byte = bytes[i] ?? 0;
  if (byte < 0x80) return byte === 0x20 || (byte >= 0x09 && byte <= 0x0d) ? 1 : 0;
  const two = byte * 256 + (bytes[i + 1] ?? 0);
  if (two === 0xc285 || two === 0xc2a0) return 2;
  return WIDE_SPACES.has(two * 256 + (bytes[i + 2] ?? 0)) ? 3 : 0;
}
/** Three bytes of UTF-8 that are Unicode White_Space. */
const WIDE_SPACES = new Set([
  0xe19a80, 0xe28080, 0xe28081, 0xe28082, 0xe28083, 0xe28084, 0xe28085, 0xe28086, 0xe28087, 0xe28088,
  0xe28089, 0xe2808a, 0xe280a8, 0xe280a9, 0xe280af, 0xe2819f, 0xe38080,
]);
