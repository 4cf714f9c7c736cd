/** Hides secret values in what is shown and stored of a child's streams; the length in bytes stays as it was. */

/** Shorter values are not hidden: they would hide ordinary text too. */
export const MASKED_FROM_CHARS = 8;

export interface Mask {
  /** bytes that a value can reach over a cut */
  readonly reach: number;
  readonly text: (text: string) => string;
  readonly bytes: (chunks: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>;
}

/** A mask for these values; of values below 8 characters nothing is hidden. */
export function createMask(values: readonly string[]): Mask {
  const hidden = [...new Set(values)].filter((value) => value.length >= MASKED_FROM_CHARS);
  const needles = hidden.map((value) => Buffer.from(value));
  const reach = Math.max(1, ...needles.map(({ length }) => length)) - 1;
  return {
    reach,
    text: (text) =>
      needles.length === 0 ? text : hide(Buffer.from(text), Buffer.from(text), needles).toString(),
    bytes: (chunks) => (needles.length === 0 ? chunks : hideAcross(chunks, needles, reach)),
  };
}

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

/** Holds back as much of each chunk as a value that goes on in the next one can take. */
async function* hideAcross(
  chunks: AsyncIterable<Uint8Array>,
  needles: readonly Buffer[],
  reach: number,
): AsyncIterable<Uint8Array> {
  let raw: Buffer = Buffer.alloc(0);
  let shown: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    raw = Buffer.concat([raw, chunk]);
    shown = hide(raw, Buffer.concat([shown, chunk]), needles);
    const ready = Math.max(0, raw.length - reach);
    if (ready > 0) yield shown.subarray(0, ready);
    raw = raw.subarray(ready);
    shown = shown.subarray(ready);
  }
  if (shown.length > 0) yield shown;
}
