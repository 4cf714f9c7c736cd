/** The JSON documents that a program printed, one a line or as the elements of one list, read in bounded memory. */

import { MAX_DEPTH } from '../json.ts';
import { type ByteRange, createJsonScanner, createListScanner, type Match } from '../json-scan.ts';
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
  const scanner = createJsonScanner(pointers, RECORD_DEPTH);
  let isBlank = true;
  let lines = 0;
  let records = 0;
  let skipped = 0;
  let firstSkip = '';
  const endLine = (): Match | null => {
    lines++;
    if (isBlank) return null;
    isBlank = true;
    const scan = scanner.end();
    if (scan.ok) return { range: scan.document, find: scan.find };
    if (skipped++ === 0) firstSkip = `line ${lines}: ${scan.message}`;
    return null;
  };
  const tell = (match: Match, bytesOf: Record['bytesOf']): void => {
    records++;
    onRecord({ ...match, bytesOf });
  };
  const size = await sizeOf(path);
  let chunk: Chunk = { at: 0, bytes: Buffer.alloc(0) };
  for await (const bytes of chunksOf(path, { start: 0, end: size })) {
    chunk = { at: chunk.at + chunk.bytes.length, bytes };
    const inChunk = bytesIn(chunk);
    for (let from = 0; from < bytes.length; ) {
      const end = bytes.indexOf(LINE_FEED, from);
      const part = bytes.subarray(from, end === -1 ? bytes.length : end);
      isBlank &&= part.every(isSpace);
      scanner.push(part);
      if (end === -1) break;
      const match = endLine();
      if (match)
        tell(match, match.range.start < chunk.at ? await early(path, pointers, match, chunk) : inChunk);
      from = end + 1;
      scanner.restart(chunk.at + from);
    }
  }
  const match = endLine();
  if (match) tell(match, await early(path, pointers, match, chunk));
  const count = skipped === 1 ? 'a line of stdout that is' : `${skipped} lines of stdout that are`;
  const were = skipped === 1 ? 'was' : 'were';
  return {
    records: records === 0 ? null : records,
    unreadable: records === 0 ? nothingRead(size, firstSkip) : null,
    warnings: skipped === 0 || records === 0 ? [] : [`${count} no JSON ${were} skipped; ${firstSkip}`],
  };
};
const LINE_FEED = 0x0a;

/** White space of JSON. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x09 || byte === 0x0d || byte === LINE_FEED;
}

function nothingRead(size: number, firstSkip: string): string {
  if (size === 0) return 'stdout is empty, expected JSON documents, one a line';
  return firstSkip === ''
    ? 'stdout holds only white space, expected JSON documents, one a line'
    : `no line of stdout is a JSON document; ${firstSkip}`;
}

/** The elements of one list; any other document is the only record. What is no document has to be told by others. */
export const readList: ReadRecords = async (path, pointers, onRecord) => {
  const pending: Match[] = [];
  const scanner = createListScanner(pointers, (item) => void pending.push(kept(pointers, item)));
  let records = 0;
  let chunk: Chunk = { at: 0, bytes: Buffer.alloc(0) };
  const tell = async (match: Match): Promise<void> => {
    records++;
    onRecord({ ...match, bytesOf: await early(path, pointers, match, chunk) });
  };
  for await (const bytes of chunksOf(path, { start: 0, end: await sizeOf(path) })) {
    chunk = { at: chunk.at + chunk.bytes.length, bytes };
    const goesOn = scanner.push(bytes);
    for (const item of pending.splice(0)) await tell(item);
    if (!goesOn) break;
  }
  const scan = scanner.end();
  if (!scan.ok) return { records: null, unreadable: null, warnings: [] };
  const first = await readRange(path, { start: scan.document.start, end: scan.document.start + 1 });
  if (first.toString() !== '[') await tell(await matchOf(path, pointers, scan.document));
  return { records, unreadable: null, warnings: [] };
};

/** Where the pointers hit in a document that a range of the file holds. */
async function matchOf(path: string, pointers: readonly string[], range: ByteRange): Promise<Match> {
  const scanner = createJsonScanner(pointers);
  scanner.restart(range.start);
  for await (const bytes of chunksOf(path, range)) scanner.push(bytes);
  const scan = scanner.end();
  return { range, find: (pointer) => (scan.ok ? scan.find(pointer) : undefined) };
}

/** A match that stays as it is while the scanner reads on. */
function kept(pointers: readonly string[], { range, find }: Match): Match {
  const found = new Map(pointers.map((pointer) => [pointer, find(pointer)]));
  return { range, find: (pointer) => found.get(pointer) };
}

/** What was read last, and where in the file it begins. */
interface Chunk {
  readonly at: number;
  readonly bytes: Buffer;
}

function bytesIn({ at, bytes }: Chunk): Record['bytesOf'] {
  return (range) => {
    const { start, end } = looked(range);
    return bytes.subarray(start - at, end - at);
  };
}

/** Reads what the chunk does not hold any more: the parts of a record that begin before it. */
async function early(
  path: string,
  pointers: readonly string[],
  { range: whole, find }: Match,
  chunk: Chunk,
): Promise<Record['bytesOf']> {
  const inChunk = bytesIn(chunk);
  if (whole.start >= chunk.at) return inChunk;
  const read = new Map<number, Uint8Array>();
  for (const range of [whole, ...pointers.map(find)]) {
    if (range && range.start < chunk.at) read.set(range.start, await readRange(path, looked(range)));
  }
  return (range) => read.get(range.start) ?? inChunk(range);
}

function looked({ start, end }: ByteRange): ByteRange {
  return { start, end: Math.min(end, start + LOOKED_BYTES) };
}
