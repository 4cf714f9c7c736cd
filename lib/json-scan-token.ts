/** Strings and words of JSON text: where their parts end. */

/** Width of a token that is not there, and of one that the end of the bytes cuts. */
export const BAD = -1;
export const CUT = -2;

/** The index of what is no plain text of a string: a quote, a control character, a rare escape, or the end. */
export function skipString(bytes: Uint8Array, view: DataView, from: number): number {
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
/** Bytes that are no plain text of a string. */
const SPECIAL = flags('"\\').fill(1, 0, 0x20);

/** Whether none of four bytes is a quote, a backslash or a control character. */
function isPlain(four: number): boolean {
  const quotes = (four ^ 0x22222222) - 0x01010101;
  const slashes = (four ^ 0x5c5c5c5c) - 0x01010101;
  return (((four - 0x20202020) | quotes | slashes) & ~four & 0x80808080) === 0;
}

/** Width of the escape at `i`, a pair of surrogates together. */
export function escapeWidth(bytes: Uint8Array, i: number): number {
  if (bytes[i] !== BACKSLASH) return BAD;
  if (i + 1 === bytes.length) return CUT;
  if (bytes[i + 1] !== LETTER_U) return SIMPLE_ESCAPES[bytes[i + 1]!] === 1 ? 2 : BAD;
  const unit = escapedUnit(bytes, i);
  if (unit < 0xd800 || unit > 0xdfff) return unit < 0 ? unit : 6;
  if (unit >= 0xdc00) return BAD;
  const low = escapedUnit(bytes, i + 6);
  if (low < 0) return low;
  return low >= 0xdc00 && low <= 0xdfff ? 12 : BAD;
}
const SIMPLE_ESCAPES = flags('"\\/bfnrt');
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** The UTF-16 unit that is written as `\uXXXX` at `from`. */
function escapedUnit(bytes: Uint8Array, from: number): number {
  let unit = 0;
  for (let k = 0; k < 6; k++) {
    if (from + k >= bytes.length) return CUT;
    const byte = bytes[from + k]!;
    if (k > 1) unit = unit * 16 + HEX[byte]!;
    else if (byte !== (k === 0 ? BACKSLASH : LETTER_U)) return BAD;
    if (unit < 0) return BAD;
  }
  return unit;
}
/** The value of a hexadecimal digit; of any other byte so little that no unit with it is positive. */
const HEX = new Int32Array(256).fill(-(16 ** 5));
for (const digit of '0123456789abcdefABCDEF') HEX[digit.charCodeAt(0)] = Number.parseInt(digit, 16);

/** Width of `true`, `false` or `null`. */
export function wordWidth(bytes: Uint8Array, from: number): number {
  const word = WORDS.find((known) => known[0] === bytes[from]);
  if (word === undefined) return BAD;
  for (let k = 1; k < word.length; k++) {
    if (from + k >= bytes.length) return CUT;
    if (bytes[from + k] !== word[k]) return BAD;
  }
  return word.length;
}
const WORDS = ['true', 'false', 'null'].map((word) => Buffer.from(word));

/** What is wrong with a string in which that byte is neither plain text nor the beginning of an escape. */
export function stringFault(byte: number): string {
  return byte === BACKSLASH
    ? 'bad escape or lone surrogate in a string'
    : `${nameOf(byte)} in a string, unescaped`;
}

/** How a message names the byte. */
export function nameOf(byte: number): string {
  const isPrintable = byte > 0x20 && byte < 0x7f;
  return isPrintable ? `'${String.fromCharCode(byte)}'` : `byte 0x${byte.toString(16).padStart(2, '0')}`;
}

function flags(text: string): Uint8Array {
  const table = new Uint8Array(256);
  for (const byte of Buffer.from(text)) table[byte] = 1;
  return table;
}
