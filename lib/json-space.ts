/** Valid JSON text in chunks without the white space between its tokens: one line, however it was written. */
export async function* withoutSpace(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let inString = false;
  let afterBackslash = false;
  for await (const chunk of chunks) {
    const kept = new Uint8Array(chunk.length);
    let size = 0;
    for (let i = 0; i < chunk.length; i++) {
      const byte = chunk[i]!;
      if (byte <= SPACE && !inString) continue;
      kept[size++] = byte;
      if (afterBackslash) afterBackslash = false;
      else if (byte === QUOTE) inString = !inString;
      else afterBackslash = byte === BACKSLASH;
    }
    yield kept.subarray(0, size);
  }
}

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
