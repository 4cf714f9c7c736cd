/** Cuts a byte stream that arrives in any pieces into lines or length-prefixed frames, in bounded memory. */

/** Bytes that one line, event or frame may have; a longer line is dropped without being kept. */
export const MAX_FRAME_BYTES = 16 * 1024 * 1024;

/** Takes the next piece of the stream, which is not kept; `end` says that no more comes. */
export interface Framing {
  push(chunk: Uint8Array): void;
  end(): void;
}

/** Lines without LF and one CR before it; `null` for a line over the limit. The last line needs no LF. */
export function lineFraming(onLine: (line: Buffer | null) => void): Framing {
  const kept = createBytes();
  let tooLong = false;

  const keep = (part: Buffer) => {
    tooLong ||= kept.size() + part.length > MAX_FRAME_BYTES;
    if (tooLong) kept.clear();
    else kept.append(part);
  };
  const finish = (line: Buffer) => onLine(line.at(-1) === CR ? line.subarray(0, -1) : line);
  const flush = () => {
    if (tooLong) onLine(null);
    else finish(kept.view());
    tooLong = false;
    kept.clear();
  };

  return {
    push(chunk) {
      const bytes = asBuffer(chunk);
      let start = 0;
      for (let end = bytes.indexOf(LF); end !== -1; end = bytes.indexOf(LF, start)) {
        const line = bytes.subarray(start, end);
        start = end + 1;
        if (!tooLong && kept.size() === 0 && line.length <= MAX_FRAME_BYTES) finish(line);
        else {
          keep(line);
          flush();
        }
      }
      if (start < bytes.length) keep(bytes.subarray(start));
    },
    end() {
      if (tooLong || kept.size() > 0) flush();
    },
  };
}
const LF = 0x0a;
const CR = 0x0d;

const HEADER_BYTES = 4;

/**
 * Frames of a 4-byte big-endian length and as many bytes. A length of 0 or over the limit, or an end within a
 * frame, calls `onBroken` and ends the reading: what follows cannot be told apart.
 */
export function lengthFraming(
  onFrame: (frame: Buffer) => void,
  onBroken: (message: string) => void,
): Framing {
  const kept = createBytes();
  let frame = 1;
  let length: number | null = null;
  let broken = false;

  const fail = (message: string) => {
    broken = true;
    kept.clear();
    onBroken(`frame ${frame} ${message}; reading stopped there`);
  };
  const readHeader = (header: Buffer) => {
    length = header.readUInt32BE(0);
    if (length > 0 && length <= MAX_FRAME_BYTES) return;
    const text = header.toString('latin1');
    const hint = /^[\x20-\x7e\t\r\n]{4}$/.test(text)
      ? ` (its header is the text ${JSON.stringify(text)}: is this another stream_mode?)`
      : '';
    fail(`has length ${length}, allowed are 1 to ${MAX_FRAME_BYTES}${hint}`);
  };

  return {
    push(chunk) {
      let bytes = asBuffer(chunk);
      while (!broken && bytes.length > 0) {
        const wanted = (length ?? HEADER_BYTES) - kept.size();
        const part = bytes.subarray(0, wanted);
        bytes = bytes.subarray(wanted);
        const whole = kept.size() === 0 && part.length === wanted;
        if (!whole) kept.append(part);
        if (part.length < wanted) return;
        const block = whole ? part : kept.view();
        if (length === null) readHeader(block);
        else {
          onFrame(block);
          length = null;
          frame++;
        }
        kept.clear();
      }
    },
    end() {
      if (broken) return;
      if (length !== null) fail(`is cut off after ${kept.size()} of ${length} bytes`);
      else if (kept.size() > 0) fail(`is cut off within its ${HEADER_BYTES}-byte header`);
    },
  };
}

export interface Bytes {
  append(part: Uint8Array): void;
  size(): number;
  /** valid until the next append or clear */
  view(): Buffer;
  clear(): void;
}

const KEPT_CAPACITY = 1024 * 1024;

/** A growing run of bytes that copies each byte a bounded number of times. */
export function createBytes(): Bytes {
  let store = Buffer.alloc(0);
  let size = 0;
  return {
    append(part) {
      if (size + part.length > store.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(1024, store.length * 2, size + part.length));
        store.copy(larger, 0, 0, size);
        store = larger;
      }
      store.set(part, size);
      size += part.length;
    },
    size: () => size,
    view: () => store.subarray(0, size),
    clear() {
      size = 0;
      if (store.length > KEPT_CAPACITY) store = Buffer.alloc(0);
    },
  };
}

function asBuffer(chunk: Uint8Array): Buffer {
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}
