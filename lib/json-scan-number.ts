/** Numbers of JSON text: where they end, and whether a double can hold them. */

/** The index after a number that does not reach the end of the bytes and surely fits a double, else `from`. */
export function skipNumber(bytes: Uint8Array, view: DataView, from: number): number {
  const n = bytes.length;
  const first = bytes[from] === MINUS ? from + 1 : from;
  let i = first;
  while (i < n && isDigit(bytes[i]!)) i++;
  const digits = i - first;
  if (digits === 0 || digits > SURE_DIGITS || (digits > 1 && bytes[first] === ZERO)) return from;
  if (i < n && bytes[i] === POINT) {
    const point = i++;
    while (i + 4 <= n && areDigits(view.getInt32(i, true))) i += 4;
    while (i < n && isDigit(bytes[i]!)) i++;
    if (i === point + 1) return from;
  }
  return i === n || isExponentMark(bytes[i]!) ? from : i;
}
/** Whole digits with which a number without an exponent is within a double. */
const SURE_DIGITS = 308;

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Whether four bytes are digits. */
function areDigits(four: number): boolean {
  return (four & 0xf0f0f0f0) === 0x30303030 && ((four + 0x06060606) & 0xf0f0f0f0) === 0x30303030;
}

function isExponentMark(byte: number): boolean {
  return (byte | 0x20) === 0x65;
}

export interface NumberReader {
  begin(): void;
  /** Takes what belongs to the number; the index of what does not. */
  take(bytes: Uint8Array, from: number): number;
  /** What is wrong with the number that ends here; null: nothing. */
  end(): string | null;
}

/** Reads numbers of any length that come in pieces. */
export function createNumberReader(): NumberReader {
  let phase = SIGN;
  /** the value is 0.d1d2d3… times 10 to the `power`, d1 being the first digit that is not 0 */
  let power = 0;
  let exponent = 0;
  let isNegative = false;
  /** how many digits from d1 on equal those of the limit, and how the first other one compares */
  let same = 0;
  let order = 0;

  const isZero = (): boolean => same === 0 && order === 0;

  /** Takes digits from d1 on; the index of what follows. */
  const takeDigits = (bytes: Uint8Array, from: number): number => {
    let i = from;
    for (; order === 0 && i < bytes.length && isDigit(bytes[i]!); i++) {
      if (same === LIMIT.length) order = 1;
      else if (bytes[i] === LIMIT[same]) same++;
      else order = bytes[i]! - LIMIT[same]!;
    }
    while (i < bytes.length && isDigit(bytes[i]!)) i++;
    return i;
  };

  return {
    begin: () => {
      phase = SIGN;
      power = 0;
      exponent = 0;
      isNegative = false;
      same = 0;
      order = 0;
    },
    take: (bytes, from) => {
      let i = from;
      while (i < bytes.length) {
        const byte = bytes[i]!;
        switch (phase) {
          case SIGN:
            if (byte === MINUS) i++;
            phase = FIRST_DIGIT;
            break;
          case FIRST_DIGIT:
            if (!isDigit(byte)) return i;
            phase = byte === ZERO ? AFTER_WHOLE : WHOLE;
            if (byte === ZERO) i++;
            break;
          case WHOLE: {
            const end = takeDigits(bytes, i);
            power += end - i;
            i = end;
            if (i < bytes.length) phase = AFTER_WHOLE;
            break;
          }
          case AFTER_WHOLE:
            if (byte === POINT) phase = AFTER_POINT;
            else if (isExponentMark(byte)) phase = EXPONENT_SIGN;
            else return i;
            i++;
            break;
          case AFTER_POINT:
            if (!isDigit(byte)) return i;
            phase = FRACTION;
            break;
          case FRACTION:
            if (byte === ZERO && isZero()) {
              power--;
              i++;
            } else if (isDigit(byte)) i = takeDigits(bytes, i);
            else if (isExponentMark(byte)) {
              phase = EXPONENT_SIGN;
              i++;
            } else return i;
            break;
          case EXPONENT_SIGN:
            isNegative = byte === MINUS;
            if (byte === MINUS || byte === PLUS) i++;
            phase = AFTER_EXPONENT_SIGN;
            break;
          default:
            if (!isDigit(byte)) return i;
            phase = EXPONENT;
            exponent = Math.min(exponent * 10 + byte - ZERO, MAX_EXPONENT);
            i++;
        }
      }
      return i;
    },
    end: () => {
      if (!COMPLETE.has(phase)) return 'expected a digit';
      const size = power + (isNegative ? -exponent : exponent) - LIMIT.length;
      const fits = isZero() || size < 0 || (size === 0 && order <= 0 && same < LIMIT.length);
      return fits ? null : 'number outside the range of a double';
    },
  };
}
/** What of a number was read last, or comes next. */
const SIGN = 0;
const FIRST_DIGIT = 1;
const WHOLE = 2;
const AFTER_WHOLE = 3;
const AFTER_POINT = 4;
const FRACTION = 5;
const EXPONENT_SIGN = 6;
const AFTER_EXPONENT_SIGN = 7;
const EXPONENT = 8;
/** Where a number may end. */
const COMPLETE = new Set([WHOLE, AFTER_WHOLE, FRACTION, EXPONENT]);
/** The digits of the smallest number that rounds to infinity. */
const LIMIT = Buffer.from(String(2n ** 1024n - 2n ** 970n));
/** More than any text has digits. */
const MAX_EXPONENT = 1e15;

const PLUS = 0x2b;
const MINUS = 0x2d;
const POINT = 0x2e;
const ZERO = 0x30;
