/** UTF-8 text as it stands inside a JSON string: what JSON.stringify writes, from bytes to bytes. */

/** A byte of text becomes so many at the most. */
export const MOST_ESCAPED = 6;

/** Writes valid UTF-8 into `to`, escaped, and returns how many bytes that are. Four plain bytes go at once. */
export function escapeInto(to: Buffer, text: Uint8Array): number {
  const source = new DataView(text.buffer, text.byteOffset, text.length);
  const target = new DataView(to.buffer, to.byteOffset, to.length);
  let at = 0;
  let written = 0;
  while (at + 4 <= text.length) {
    const word = source.getInt32(at, true);
    if (isPlain(word)) {
      target.setInt32(written, word, true);
      written += 4;
      at += 4;
    } else for (const end = at + 4; at < end; at++) written = escapeByte(to, written, text[at]!);
  }
  for (; at < text.length; at++) written = escapeByte(to, written, text[at]!);
  return written;
}

/**
 * Whether none of the four bytes is a control character, a quote or a backslash. What is subtracted from a byte leaves
 * its highest bit set where it is below 0x20, or 0 after the XOR; a borrow from a lower byte can only make it more careful.
 */
function isPlain(word: number): boolean {
  const controls = word - 0x20202020;
  const quotes = (word ^ 0x22222222) - 0x01010101;
  const backslashes = (word ^ 0x5c5c5c5c) - 0x01010101;
  return ((controls | quotes | backslashes) & ~word & 0x80808080) === 0;
}

function escapeByte(to: Buffer, at: number, byte: number): number {
  if (byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH) {
    to[at] = byte;
    return at + 1;
  }
  const escaped = ESCAPES[byte]!;
  for (let i = 0; i < escaped.length; i++) to[at + i] = escaped[i]!;
  return at + escaped.length;
}
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Escapes of ASCII characters, by their code. */
const ESCAPES: readonly Uint8Array[] = Array.from({ length: 0x80 }, (_, code) =>
  Buffer.from(JSON.stringify(String.fromCharCode(code)).slice(1, -1)),
);
