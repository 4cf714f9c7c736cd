/** Many ranges of a file in little memory. */
import type { ByteRange } from '../json-scan.ts';

export interface RangeList extends Iterable<ByteRange> {
  readonly add: (range: ByteRange) => void;
  readonly clear: () => void;
}

/** Two numbers a range, in an array that doubles as it fills. */
export function createRangeList(): RangeList {
  let offsets = new Float64Array(16);
  let used = 0;
  return {
    add: ({ start, end }) => {
      if (used === offsets.length) {
        const larger = new Float64Array(2 * used);
        larger.set(offsets);
        offsets = larger;
      }
      offsets[used++] = start;
      offsets[used++] = end;
    },
    clear: () => {
      used = 0;
    },
    *[Symbol.iterator]() {
      for (let at = 0; at < used; at += 2) yield { start: offsets[at]!, end: offsets[at + 1]! };
    },
  };
}
