/** Text of a child as the document language sees it: white space by Unicode, short and printable in messages. */

const DECODER = new TextDecoder('utf-8', { ignoreBOM: true });

/** UTF-8 to text; every bad sequence becomes U+FFFD, a byte-order mark stays. */
export function decodeUtf8(bytes: Uint8Array): string {
  return DECODER.decode(bytes);
}

/** Whether a UTF-16 unit has the Unicode property White_Space (U+0085 has it, U+FEFF has not). */
function isWhiteSpace(unit: number): boolean {
  if (unit <= 0x20) return unit === 0x20 || (unit >= 0x09 && unit <= 0x0d);
  if (unit < 0x1680) return unit === 0x85 || unit === 0xa0;
  return (
    unit === 0x1680 ||
    (unit >= 0x2000 && unit <= 0x200a) ||
    unit === 0x2028 ||
    unit === 0x2029 ||
    unit === 0x202f ||
    unit === 0x205f ||
    unit === 0x3000
  );
}

/** The text without trailing Unicode White_Space. */
export function trimEnd(text: string): string {
  let end = text.length;
  while (end > 0 && isWhiteSpace(text.charCodeAt(end - 1))) end--;
  return text.slice(0, end);
}

/** The text without leading and trailing Unicode White_Space. */
export function trim(text: string): string {
  let start = 0;
  while (start < text.length && isWhiteSpace(text.charCodeAt(start))) start++;
  return trimEnd(text.slice(start));
}

/** At most `max` UTF-16 units of the text, never half a character. */
export function head(text: string, max: number): string {
  if (text.length <= max) return text;
  const last = text.charCodeAt(max - 1);
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? max - 1 : max);
}

/** The text for a message: control characters escaped, cut after `max` units with `…`. */
export function short(text: string, max: number): string {
  const cut = head(text, max).replace(CONTROL, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return text.length > max ? `${cut}…` : cut;
}
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/g;

/** The last line that is not blank, or `''`. */
export function lastLine(text: string): string {
  const body = trimEnd(text);
  return body.slice(body.lastIndexOf('\n') + 1);
}
