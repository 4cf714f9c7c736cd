/** What is kept of a stream that is longer than its limit: the beginning, the end, and how much is missing between. */
import { fstatSync, ftruncateSync, readSync, writeSync } from 'node:fs';
import { TAIL_BYTES } from '../limits.ts';

/** Cuts a file that has grown beyond `limit` down to its head and tail; the bytes that it had. */
export function keepHeadAndTail(fd: number, limit: number): number {
  const { size } = fstatSync(fd);
  const missing = size - limit - TAIL_BYTES;
  if (missing <= 0) return size;
  const tail = Buffer.alloc(TAIL_BYTES);
  readSync(fd, tail, 0, TAIL_BYTES, size - TAIL_BYTES);
  ftruncateSync(fd, limit);
  writeSync(fd, Buffer.concat([cutLine(missing), tail]));
  return size;
}

export interface StderrWriter {
  readonly write: (chunk: Buffer) => void;
  readonly overflowed: () => boolean;
  /** Adds the end of what was cut; the number of bytes that the child printed. */
  readonly finish: () => number;
}

/**
 * Keeps the first `limit` bytes, and of what is more the last 8 KiB with a line that tells how much is missing, in the
 * file that `open` makes when there is something to keep.
 */
export function stderrWriter(open: () => number, limit: number, onOverflow: () => void): StderrWriter {
  let seen = 0;
  let kept = 0;
  let last = Buffer.alloc(0);
  const put = (bytes: Uint8Array): void => {
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(open(), bytes, at);
    } catch {
      onOverflow();
    }
  };
  return {
    write: (chunk) => {
      seen += chunk.length;
      const fits = chunk.subarray(0, Math.max(0, limit - kept));
      kept += fits.length;
      put(fits);
      if (seen <= limit) return;
      last = Buffer.concat([last, chunk.subarray(fits.length)]).subarray(-TAIL_BYTES);
      onOverflow();
    },
    overflowed: () => seen > limit,
    finish: () => {
      if (last.length > 0) put(Buffer.concat([cutLine(seen - kept - last.length), last]));
      return seen;
    },
  };
}

function cutLine(bytes: number): Buffer {
  return Buffer.from(`\n[${bytes} bytes cut here]\n`);
}
