/**
 * Reads one JSON document of any size from bytes that come in chunks: whether it is one, and where in it the values
 * at some pointers stand. Memory does not grow with the document.
 */
import { isHit, type Wanted, wantedBy } from './json-scan-pointer.ts';
import {
  endReading,
  isDone,
  newReading,
  type Reading,
  readValue,
  restartReading,
  unexpected,
} from './json-scan-value.ts';

/** Offsets in bytes from the beginning of the stream; `end` is the first byte after. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export type Scan =
  /** of duplicate keys the last counts; good until the next document begins */
  | { readonly ok: true; readonly document: ByteRange; readonly find: Match['find'] }
  /** `at` is the offset of what cannot stand there, or the length where the document ends early */
  | { readonly ok: false; readonly at: number; readonly message: string };

/** A value, and where in it the pointers hit. */
export interface Match {
  readonly range: ByteRange;
  readonly find: (pointer: string) => ByteRange | undefined;
}

export interface JsonScanner {
  /** Takes the next bytes, cut anywhere; the chunk is not kept. False: no document, whatever follows. */
  push(chunk: Uint8Array): boolean;
  end(): Scan;
  /** Begins another document, which stands further on in the same bytes: at this offset or after it. */
  restart(offset: number): void;
}

/** As many nested containers as foreign JSON may have. */
const MAX_DEPTH = 127;

/**
 * The document may stand in Unicode white space, behind at most one byte-order mark, and nests at most `maxDepth`
 * containers. Bytes that are no UTF-8 may stand in strings, where they mean U+FFFD. Numbers outside the range of a
 * double and escapes of lone surrogates are refused. Pointers are RFC 6901 and reach own members and existing
 * indices. Throws RangeError for a pointer that is neither empty nor begins with `/`.
 */
export function createJsonScanner(pointers: readonly string[], maxDepth: number = MAX_DEPTH): JsonScanner {
  const { root, targets } = wantedBy(pointers);
  return scannerFor(root, targets, maxDepth);
}

/** The same for a document that may be a list: its items are told, each with where the pointers hit in it. */
export function createListScanner(
  pointers: readonly string[],
  onItem: (item: Match) => void,
  maxDepth: number = MAX_DEPTH,
): JsonScanner {
  const { root, targets } = wantedBy([]);
  const item = wantedBy(pointers);
  root.each = item.root;
  item.root.onEnd = () => onItem({ range: rangeOf(item.root), find: finder(item.targets) });
  return scannerFor(root, targets, maxDepth);
}

function scannerFor(root: Wanted, targets: ReadonlyMap<string, Wanted>, maxDepth: number): JsonScanner {
  const reading = newReading(root, maxDepth);
  const stream: Stream = { reading, isMarked: false, isBegun: false, carry: NOTHING };
  return {
    push: (chunk) => push(stream, chunk),
    end: () => {
      end(stream);
      if (reading.failure !== null) return { ok: false, ...reading.failure };
      return { ok: true, document: rangeOf(root), find: finder(targets) };
    },
    restart: (offset) => {
      restartReading(reading, root, offset);
      Object.assign(stream, { isMarked: false, isBegun: false, carry: NOTHING });
    },
  };
}

const NOTHING = new Uint8Array(0);

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
  stream.carry = i === bytes.length ? NOTHING : new Uint8Array(bytes.subarray(i));
  reading.offset += i;
  return reading.failure === null;
}

function end({ reading, isBegun, carry }: Stream): void {
  if (reading.failure !== null) return;
  const isAround = !isBegun || isDone(reading);
  if (isAround && carry.length > 0) unexpected(reading, 0, carry[0]!, reading.state);
  else endReading(reading, carry.length);
}

function finder(targets: ReadonlyMap<string, Wanted>): Match['find'] {
  return (pointer) => {
    const wanted = targets.get(pointer);
    return wanted && isHit(wanted) ? rangeOf(wanted) : undefined;
  };
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
