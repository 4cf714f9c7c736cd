/** Bytes of a file that may be larger than memory, a bounded piece at a time. */
import { isUtf8 } from 'node:buffer';
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import type { ByteRange } from '../json-scan.ts';
import { decodeUtf8, trimEnd } from './text.ts';

/** Of what is read a piece at a time. */
export const CHUNK_BYTES = 256 * 1024;

/** Read at once: for so few bytes of a file that was just written, the way through the thread pool takes longer. */
export const SMALL_BYTES = 64 * 1024;

export async function sizeOf(path: string): Promise<number> {
  return statSync(path).size;
}

/** The bytes of the range, or as many of them as there are. */
export async function readRange(path: string, range: ByteRange): Promise<Buffer> {
  const { start, end } = range;
  if (end - start <= SMALL_BYTES) return readSmall(path, range);
  return withFile(path, (file) => readAt(file, Buffer.allocUnsafe(end - start), start));
}

function readSmall(path: string, { start, end }: ByteRange): Buffer {
  if (end === start) return Buffer.alloc(0);
  const fd = openSync(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(end - start);
    return buffer.subarray(0, readSync(fd, buffer, 0, buffer.length, start));
  } finally {
    closeSync(fd);
  }
}

/**
 * The range in chunks, each good until the next but one is asked for, so that one can be written while the next is made;
 * the file is read one chunk ahead. Throws when the file ends before the range does.
 */
export function chunksOf(path: string, range: ByteRange): AsyncGenerator<Buffer> {
  return cutChunks(path, range, ({ length }) => length);
}

/** The same as valid UTF-8, in chunks of whole characters: every bad sequence becomes U+FFFD. */
export async function* textChunksOf(path: string, range: ByteRange): AsyncGenerator<Buffer> {
  for await (const chunk of cutChunks(path, range, wholeCharacters))
    yield isUtf8(chunk) ? chunk : Buffer.from(decodeUtf8(chunk));
}

/** All bytes of chunks that may be overwritten by later ones. */
export async function bytesOf(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const copies: Buffer[] = [];
  for await (const chunk of chunks) copies.push(Buffer.from(chunk));
  return Buffer.concat(copies);
}

/** Each chunk ends where `cut` says; what is behind it is read again, unless it is the last of the range. */
async function* cutChunks(
  path: string,
  { start, end }: ByteRange,
  cut: (bytes: Buffer) => number,
): AsyncGenerator<Buffer> {
  const file = await open(path, 'r');
  try {
    const buffers = Array.from({ length: 3 }, () => Buffer.allocUnsafe(Math.min(CHUNK_BYTES, end - start)));
    const read = (at: number): Promise<Buffer> => {
      const buffer = buffers.shift()!;
      buffers.push(buffer);
      const reading = readAt(file, buffer.subarray(0, end - at), at);
      reading.catch(() => undefined);
      return reading;
    };
    let reading = read(start);
    for (let at = start; at < end; ) {
      const bytes = await reading;
      if (bytes.length === 0) throw new Error(`${path} ends after ${at} bytes, expected ${end}`);
      const chunk = at + bytes.length === end ? bytes : bytes.subarray(0, cut(bytes));
      at += chunk.length;
      if (at < end) reading = read(at);
      yield chunk;
    }
  } finally {
    await file.close();
  }
}

/**
 * Text as it is and ranges of the file, one after the other, in chunks that are good until the next is asked for. The
 * file is read in windows, best in its order.
 */
export async function* rangesOf(path: string, pieces: Iterable<string | ByteRange>): AsyncGenerator<Buffer> {
  const file = await open(path, 'r');
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let used = 0;
  let window: Buffer = Buffer.alloc(0);
  let first = 0;
  const load = async (at: number, end: number): Promise<void> => {
    window = await readAt(file, Buffer.allocUnsafe(CHUNK_BYTES), at);
    first = at;
    if (window.length === 0) throw new Error(`${path} ends after ${at} bytes, expected ${end}`);
  };
  try {
    for (const piece of pieces) {
      const text = typeof piece === 'string' ? Buffer.from(piece) : null;
      const { start, end } = typeof piece === 'string' ? { start: 0, end: text!.length } : piece;
      for (let at = start; at < end; ) {
        if (!text && (at < first || at >= first + window.length)) await load(at, end);
        const source = text ?? window;
        const base = text ? 0 : first;
        const copied = source.copy(chunk, used, at - base, Math.min(end - base, source.length));
        at += copied;
        used += copied;
        if (used === chunk.length) {
          yield chunk;
          used = 0;
        }
      }
    }
    if (used > 0) yield chunk.subarray(0, used);
  } finally {
    await file.close();
  }
}

/** The text of the last `max` bytes before `end`, without the rest of a character that they cut. */
export async function textBefore(path: string, end: number, max: number): Promise<string> {
  const start = Math.max(0, end - max);
  const bytes = await readRange(path, { start, end });
  return decodeUtf8(start === 0 ? bytes : bytes.subarray(firstCharacter(bytes)));
}

/** How many of the first `size` bytes are left without trailing Unicode White_Space. */
export async function trimmedSize(path: string, size: number): Promise<number> {
  return withFile(path, async (file) => {
    const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size));
    for (let end = size; end > 0; ) {
      const start = Math.max(0, end - buffer.length);
      const bytes = await readAt(file, buffer.subarray(0, end - start), start);
      const first = start === 0 ? 0 : firstCharacter(bytes);
      const text = decodeUtf8(bytes.subarray(first));
      const kept = trimEnd(text);
      if (kept !== '') return end - Buffer.byteLength(text.slice(kept.length));
      end = start + first;
    }
    return 0;
  });
}

/** Offset of the first byte that begins a character. */
function firstCharacter(bytes: Uint8Array): number {
  let at = 0;
  while (at < Math.min(4, bytes.length) && (bytes[at]! & 0xc0) === 0x80) at++;
  return at;
}

/** How many of the bytes are left without a character that may go on behind them; all where that would leave none. */
function wholeCharacters(bytes: Uint8Array): number {
  for (let at = bytes.length - 1; at > Math.max(0, bytes.length - 4); at--) if (bytes[at]! >= 0xc0) return at;
  return bytes.length;
}

async function readAt(file: FileHandle, buffer: Buffer, position: number): Promise<Buffer> {
  const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
  return buffer.subarray(0, bytesRead);
}

async function withFile<T>(path: string, use: (file: FileHandle) => Promise<T>): Promise<T> {
  const file = await open(path, 'r');
  try {
    return await use(file);
  } finally {
    await file.close();
  }
}
