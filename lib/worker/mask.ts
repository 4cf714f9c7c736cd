/** Hides secret values in what is shown and stored of a child's streams; the length in bytes stays as it was. */

/** Shorter values are not hidden: they would hide ordinary text too. */
export const MASKED_FROM_CHARS = 8;

export interface Mask {
  /** bytes that a value can reach over a cut */
  readonly reach: number;
  readonly text: (text: string) => string;
  /** a message, which may quote texts cut with `…`: also the beginning of a value before that */
  readonly message: (text: string) => string;
  readonly bytes: (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
  /** for bytes that come piece by piece */
  readonly cover: () => Cover;
}

/** Gives back what can be shown of the bytes so far; the end gives the rest. */
export interface Cover {
  readonly push: (chunk: Uint8Array) => Uint8Array;
  readonly end: () => Uint8Array;
}

/** A mask for these values; of values below 8 characters nothing is hidden. */
export function createMask(values: readonly string[]): Mask {
  const hidden = [...new Set(values)].filter((value) => value.length >= MASKED_FROM_CHARS);
  const needles = hidden.map((value) => Buffer.from(value));
  const whole = (text: string): string =>
    needles.length === 0 ? text : hide(Buffer.from(text), Buffer.from(text), needles).toString();
  const reach = Math.max(1, ...needles.map(({ length }) => length)) - 1;
  return {
    reach,
    text: whole,
    message: (text) => whole(hidden.reduce(hideCut, text)),
    bytes: (chunks) => (needles.length === 0 ? chunks : hideAcross(chunks, createCover(needles, reach))),
    cover: () => createCover(needles, reach),
  };
}

const CUT = '…';

/** Hides what stands before a cut when it is how the value begins. */
function hideCut(text: string, value: string): string {
  const pieces = text.split(CUT);
  return pieces
    .map((piece, i) => {
      const longest = i === pieces.length - 1 ? 0 : Math.min(value.length - 1, piece.length);
      for (let length = longest; length >= SHORTEST_CUT; length--) {
        if (piece.endsWith(value.slice(0, length))) return piece.slice(0, -length) + '*'.repeat(length);
      }
      return piece;
    })
    .join(CUT);
}
const SHORTEST_CUT = 3;

const STAR = '*'.charCodeAt(0);

/** Covers in `shown` what stands in `raw`, which is the same bytes before anything was covered. */
function hide(raw: Buffer, shown: Buffer, needles: readonly Buffer[]): Buffer {
  for (const needle of needles) {
    for (let at = raw.indexOf(needle); at !== -1; at = raw.indexOf(needle, at + 1)) {
      shown.fill(STAR, at, at + needle.length);
    }
  }
  return shown;
}

async function* hideAcross(chunks: AsyncIterable<Uint8Array>, cover: Cover): AsyncIterable<Uint8Array> {
  for await (const chunk of chunks) {
    const ready = cover.push(chunk);
    if (ready.length > 0) yield ready;
  }
  const rest = cover.end();
  if (rest.length > 0) yield rest;
}

/** Holds back as much of each chunk as a value that goes on in the next one can take. */
function createCover(needles: readonly Buffer[], reach: number): Cover {
  let raw: Buffer = Buffer.alloc(0);
  let shown: Buffer = Buffer.alloc(0);
  return {
    push: (chunk) => {
      raw = Buffer.concat([raw, chunk]);
      shown = hide(raw, Buffer.concat([shown, chunk]), needles);
      const ready = shown.subarray(0, Math.max(0, raw.length - reach));
      raw = raw.subarray(ready.length);
      shown = shown.subarray(ready.length);
      return ready;
    },
    end: () => shown,
  };
}
