/** What the readers of JSON and YAML text have in common. */
import { type JsonValue, unescapeSegment } from '../json.ts';

/** What a reader makes of text: the value and the offsets of pointers, or what is wrong and where. */
export type ReadText =
  | {
      readonly ok: true;
      readonly value: JsonValue;
      readonly offsets: (pointers: readonly string[]) => (number | undefined)[];
    }
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      readonly offset: number | undefined;
    };

/** The keys and indices that a JSON Pointer names. */
export function unescapeSegments(pointer: string): string[] {
  return pointer.split('/').slice(1).map(unescapeSegment);
}
