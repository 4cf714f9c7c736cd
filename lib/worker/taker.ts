/** What one selection takes of the records that pass by. */
import type { Selection } from '../blueprint/output-schema.ts';
import { JsonError, type JsonValue, jsonEquals, parseJson } from '../json.ts';
import type { ByteRange } from '../json-scan.ts';
import { createRangeList } from './range-list.ts';
import { LOOKED_BYTES, type Record } from './records.ts';
import { decodeUtf8, short } from './text.ts';

export interface Taker {
  readonly name: string;
  readonly selection: Selection;
  readonly offer: (record: Record) => void;
  /** where what was taken stands; null where the selection comes to nothing */
  readonly taken: () => Iterable<ByteRange> | null;
  /** why it comes to nothing although records match */
  readonly refused: () => string | null;
}

export function createTaker(name: string, selection: Selection): Taker {
  const { ptr, join, take } = selection;
  const where = testsOf(selection.where);
  const after = selection.after_last ? testsOf(selection.after_last) : null;
  const ranges = createRangeList();
  let matched = 0;
  let unjoinable = false;
  const clear = (): void => {
    ranges.clear();
    matched = 0;
    unjoinable = false;
  };
  const keep = (range: ByteRange, record: Record): void => {
    matched++;
    if (take === 'first' && matched > 1) return;
    if (take !== 'all') ranges.clear();
    ranges.add(range);
    if (join != null) unjoinable ||= record.bytesOf(range)[0] !== QUOTE;
  };
  const refused = (): string | null => {
    if (take === 'only' && matched > 1) return `takes only one record, and ${matched} match`;
    return unjoinable ? 'joins texts, and a record has another value there' : null;
  };
  return {
    name,
    selection,
    offer: (record) => {
      if (after && matches(after, record)) return clear();
      const range = ptr == null ? record.range : record.find(ptr);
      if (range && matches(where, record)) keep(range, record);
    },
    refused,
    taken: () => (refused() !== null || (matched === 0 && join == null) ? null : ranges),
  };
}
const QUOTE = 0x22;

/** The pointers that selections look at. */
export function pointersOf(takers: readonly Taker[]): string[] {
  const named = takers.flatMap(({ selection: { where, after_last, ptr } }) => [
    ...Object.keys(where),
    ...Object.keys(after_last ?? {}),
    ...(ptr == null ? [] : [ptr]),
  ]);
  return [...new Set(named)];
}

export function isJoined({ selection }: Taker): boolean {
  return selection.join != null;
}

/** Why a selection comes to nothing, or null where it does not. */
export function tookNothing(taker: Taker, records: number): string | null {
  if (taker.taken() !== null) return null;
  const subject = taker.name === '' ? 'output.select' : `selection '${taker.name}'`;
  const { where, ptr, after_last } = taker.selection;
  const after = after_last ? ` after the last ${short(JSON.stringify(after_last), 200)}` : '';
  const wanted = `${short(JSON.stringify(where), 200)}${ptr == null ? '' : ` with ${ptr}`}${after}`;
  return `${subject} ${taker.refused() ?? `matched none of ${records} records: ${wanted}`}`;
}

/** A pointer, and what must stand there, also as its usual JSON text. */
interface Test {
  readonly pointer: string;
  readonly wanted: JsonValue;
  readonly text: Uint8Array;
}

function testsOf(where: Readonly<{ [pointer: string]: JsonValue }>): Test[] {
  return Object.entries(where).map(([pointer, wanted]) => ({
    pointer,
    wanted,
    text: Buffer.from(JSON.stringify(wanted)),
  }));
}

function matches(tests: readonly Test[], { find, bytesOf }: Record): boolean {
  return tests.every((test) => {
    const range = find(test.pointer);
    return range !== undefined && range.end - range.start <= LOOKED_BYTES && isWanted(test, bytesOf(range));
  });
}

/** The same text, or another spelling of the same value: escapes in a string, a number such as 1.0. */
function isWanted({ wanted, text }: Test, bytes: Uint8Array): boolean {
  if (Buffer.compare(text, bytes) === 0) return true;
  const hasOneSpelling = wanted === null || typeof wanted === 'boolean';
  const isPlainText = bytes[0] === QUOTE && !bytes.includes(BACKSLASH);
  const isList = bytes[0] === LIST_START || bytes[0] === OBJECT_START;
  if (hasOneSpelling || isPlainText || isList) return false;
  try {
    return jsonEquals(parseJson(decodeUtf8(bytes)), wanted);
  } catch (error) {
    if (error instanceof JsonError) return false;
    throw error;
  }
}
const BACKSLASH = 0x5c;
const LIST_START = 0x5b;
const OBJECT_START = 0x7b;
