/** The JSON documents that a program printed, one a line or as the elements of one list, read in bounded memory. */

import { MAX_DEPTH } from '../json.ts';
import { type ByteRange, createJsonScanner, type Match } from '../json-scan.ts';
import { chunksOf, readRange, sizeOf } from './file-range.ts';

/** One document, as offsets in the file, and what of it can be looked at. */
export interface Record extends Match {
  /** the bytes of the record or of what was found, at most the first `LOOKED_BYTES` of them */
  readonly bytesOf: (range: ByteRange) => Uint8Array;
}

export interface Printed {
  /** how many there are; null where the output is not as the format wants it */
  readonly records: number | null;
  /** why not, where the JSON parser has no words for it */
  readonly unreadable: string | null;
  readonly warnings: readonly string[];
}

export type ReadRecords = (
  path: string,
  pointers: readonly string[],
  onRecord: (record: Record) => void,
) => Promise<Printed>;

/** What stands at a pointer is looked at up to here; what is longer equals nothing that a template can name. */
export const LOOKED_BYTES = 64 * 1024;
/** The selected records become parts of a document that has to be readable as a whole. */
const RECORD_DEPTH = MAX_DEPTH - 2;

/** A document a line; lines that hold something else are skipped, counted and told. */
export const readLines: ReadRecords = async (path, pointers, onRecord) => {
  let scanner = createJsonScanner(pointers, { maxDepth: RECORD_DEPTH });
  let start = 0;
  let isBlank = true;
  let lines = 0;
  let records = 0;
  let skipped = 0;
  let firstSkip = '';
  const endLine = (): Match | null => {
    lines++;
    if (isBlank) return null;
    const scan = scanner.end();
    scanner = createJsonScanner(pointers, { maxDepth: RECORD_DEPTH });
    isBlank = true;
    if (scan.ok) return { range: scan.document, found: scan.found };
    if (skipped++ === 0) firstSkip = `line ${lines}: ${scan.message}`;
    return null;
  };
  const tell = async (match: Match | null, chunk: Chunk): Promise<void> => {
    if (match === null) return;
    records++;
    const record = shifted(match, start);
    onRecord({ ...record, bytesOf: await bytesOf(path, record, chunk) });
  };
  const size = await sizeOf(path);
  let chunk: Chunk = { at: 0, bytes: Buffer.alloc(0) };
  for await (const bytes of chunksOf(path, { start: 0, end: size })) {
    chunk = { at: chunk.at + chunk.bytes.length, bytes };
    for (let from = 0; from < bytes.length; ) {
      const end = bytes.indexOf(LINE_FEED, from);
      const part = bytes.subarray(from, end === -1 ? bytes.length : end);
      isBlank &&= part.every((byte) => byte <= SPACE);
      if (!isBlank) scanner.push(part);
      if (end === -1) break;
      const match = endLine();
      if (match) await tell(match, chunk);
      from = end + 1;
      start = chunk.at + from;
    }
  }
  if (!isBlank) await tell(endLine(), chunk);
  const count = skipped === 1 ? 'a line' : `${skipped} lines`;
  return {
    records: records === 0 ? null : records,
    unreadable: records === 0 ? nothingRead(size, firstSkip) : null,
    warnings:
      skipped === 0 || records === 0
        ? []
        : [`${count} of stdout that are no JSON were skipped; ${firstSkip}`],
  };
};
const LINE_FEED = 0x0a;
const SPACE = 0x20;

function nothingRead(size: number, firstSkip: string): string {
  if (size === 0) return 'stdout is empty, expected JSON documents, one a line';
  return firstSkip === ''
    ? 'stdout holds only white space, expected JSON documents, one a line'
    : `no line of stdout is a JSON document; ${firstSkip}`;
}

/** The elements of one list; any other document is the only record. What is no document has to be told by others. */
export const readList: ReadRecords = async (path, pointers, onRecord) => {
  const pending: Match[] = [];
  const items = { pointers, onItem: (item: Match) => void pending.push(item) };
  const scanner = createJsonScanner(pointers, { items });
  let records = 0;
  let chunk: Chunk = { at: 0, bytes: Buffer.alloc(0) };
  const tell = async (match: Match): Promise<void> => {
    records++;
    onRecord({ ...match, bytesOf: await bytesOf(path, match, chunk) });
  };
  for await (const bytes of chunksOf(path, { start: 0, end: await sizeOf(path) })) {
    chunk = { at: chunk.at + chunk.bytes.length, bytes };
    const goesOn = scanner.push(bytes);
    for (const item of pending.splice(0)) await tell(item);
    if (!goesOn) break;
  }
  const scan = scanner.end();
  if (!scan.ok) return { records: null, unreadable: null, warnings: [] };
  const { document, found } = scan;
  const first = await readRange(path, { start: document.start, end: document.start + 1 });
  if (first.toString() !== '[') await tell({ range: document, found });
  return { records, unreadable: null, warnings: [] };
};

/** What was read last, and where in the file it begins. */
interface Chunk {
  readonly at: number;
  readonly bytes: Buffer;
}

function shifted({ range, found }: Match, by: number): Match {
  const move = ({ start, end }: ByteRange): ByteRange => ({ start: start + by, end: end + by });
  return { range: move(range), found: new Map([...found].map(([pointer, each]) => [pointer, move(each)])) };
}

/** Reads what the chunk does not hold any more: parts of a record that began before it. */
async function bytesOf(
  path: string,
  { range: whole, found }: Match,
  { at, bytes }: Chunk,
): Promise<Record['bytesOf']> {
  const inChunk = ({ start, end }: ByteRange): Uint8Array => bytes.subarray(start - at, end - at);
  if (whole.start >= at) return (range) => inChunk(looked(range));
  const early = new Map<number, Uint8Array>();
  for (const range of [whole, ...found.values()]) {
    if (range.start < at) early.set(range.start, await readRange(path, looked(range)));
  }
  return (range) => early.get(range.start) ?? inChunk(looked(range));
}

function looked({ start, end }: ByteRange): ByteRange {
  return { start, end: Math.min(end, start + LOOKED_BYTES) };
}
