/** Bytes that JSON text is made of. */
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const PLUS = 0x2b;
export const COMMA = 0x2c;
export const MINUS = 0x2d;
export const POINT = 0x2e;
export const ZERO = 0x30;
export const COLON = 0x3a;
export const LIST_START = 0x5b;
export const BACKSLASH = 0x5c;
export const LIST_END = 0x5d;
export const OBJECT_START = 0x7b;
export const OBJECT_END = 0x7d;

/** Width of a token that is not there, and of one that the end of the bytes cuts. */
export const BAD = -1;
export const CUT = -2;

export function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** How a message names the byte. */
export function nameOf(byte: number): string {
  const isPrintable = byte > SPACE && byte < 0x7f;
  return isPrintable ? `'${String.fromCharCode(byte)}'` : `byte 0x${byte.toString(16).padStart(2, '0')}`;
}
