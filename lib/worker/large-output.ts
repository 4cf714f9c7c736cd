/**
 * What a child's output means where it may be larger than memory: its files are read in bounded pieces, and a large
 * value is not made but told as JSON text that is streamed from them.
 */
import { MAX_STORED_DEPTH, parseJson } from '../json.ts';
import { type ByteRange, createJsonScanner, type Scan } from '../json-scan.ts';
import type { Outcome } from '../task.ts';
import { pointersOf as conditionPointers } from './condition.ts';
import { type Choice, decide, type Ended, type Printout } from './decision.ts';
import type { Part } from './document-view.ts';
import {
  bytesOf,
  CHUNK_BYTES,
  chunksOf,
  readRange,
  sizeOf,
  textBefore,
  textChunksOf,
  trimmedSize,
} from './file-range.ts';
import { explainJsonFailure, INSPECTED_CHARACTERS } from './json-failure.ts';
import { escapeInto, MOST_ESCAPED } from './json-text.ts';
import { normalize } from './normalize.ts';
import { picksRecords, selectRecords } from './select.ts';
import { decodeUtf8 } from './text.ts';

export interface FileOutput extends Ended {
  /** `name`: where files may be made beside it; the path when absent */
  readonly stdout: { readonly path: string; readonly name?: string };
  readonly stderr: { readonly path: string };
}

/**
 * A value, or, where it is large, its JSON text in UTF-8, from its beginning at each call; each chunk is good until the
 * next but one is asked for.
 */
export type LargeValue = Pick<Outcome, 'value'> | { readonly content: () => AsyncIterable<Uint8Array> };
export type LargeOutcome = Omit<Outcome, 'value'> & LargeValue;

/** Output of at most so many bytes, both streams together, is read whole. */
export const IN_MEMORY_BYTES = 4 * 1024 * 1024;
/** A part of the output of at most so many bytes becomes a value; a larger one is not looked at, whatever stderr holds. */
export const PART_BYTES = IN_MEMORY_BYTES;
/** What is read for the last line of a text. */
const WORDS_BYTES = 8 * 1024;

/**
 * Decides as `normalize` does, from the files of a child that has ended, with memory that does not grow with them.
 * A document or a part of it is told as it is written, white space, duplicate keys and all.
 */
export async function normalizeFiles(child: FileOutput): Promise<LargeOutcome> {
  if (!picksRecords(child.output)) return normalizeDocument(child);
  const { selected, document } = await selectRecords(child.stdout, child.output);
  return normalizeDocument({ ...child, selected, ...(document !== null && { stdout: { path: document } }) });
}

async function normalizeDocument(child: FileOutput): Promise<LargeOutcome> {
  const stdout = { path: child.stdout.path, start: 0, end: await sizeOf(child.stdout.path) };
  const stderr = { path: child.stderr.path, start: 0, end: await sizeOf(child.stderr.path) };
  if (stdout.end + stderr.end <= IN_MEMORY_BYTES) {
    const [printed, complained] = [
      await readRange(stdout.path, stdout),
      await readRange(stderr.path, stderr),
    ];
    return normalize({ ...child, stdout: printed, stderr: decodeUtf8(complained) });
  }
  const pointers = pointersOf(child);
  const scan = child.selected?.unreadable ? UNREADABLE : await scanFile(stdout, pointers);
  const trimmed = { ...stdout, end: await trimmedSize(stdout.path, stdout.end) };
  const { choice, ...outcome } = decide(child, {
    stdout: scan.ok ? await viewDocument(stdout.path, pointers, scan) : await viewText(stdout, trimmed, scan),
    stderr: await lastWords(stderr, await trimmedSize(stderr.path, stderr.end)),
  });
  const pieces = piecesOf(choice, scan, trimmed, stderr);
  const content = (): AsyncIterable<Uint8Array> => write(pieces);
  if (pieces.reduce((sum, piece) => sum + sizeOfPiece(piece), 0) > PART_BYTES) return { ...outcome, content };
  return { ...outcome, value: parseJson((await bytesOf(content())).toString(), MAX_STORED_DEPTH) };
}

/** A range of one of the files. */
interface FileRange extends ByteRange {
  readonly path: string;
}

/** What is told in the words of the selection. */
const UNREADABLE: Scan = { ok: false, at: 0, message: '' };

function pointersOf({ output, retry_when }: Ended): string[] {
  const { result_ptr, ok_from, stats, error } = output ?? {};
  const declared = [result_ptr, ...Object.values(stats ?? {}), ...Object.values(error ?? {})];
  const conditions = [ok_from, retry_when].flatMap((rule) =>
    typeof rule === 'string' ? (rule === 'exit_code' ? [] : [rule]) : rule ? conditionPointers(rule) : [],
  );
  return [...declared.filter((pointer) => pointer != null), ...conditions];
}

async function scanFile(file: FileRange, pointers: readonly string[]): Promise<Scan> {
  const scanner = createJsonScanner(pointers);
  for await (const chunk of chunksOf(file.path, file)) if (!scanner.push(chunk)) break;
  return scanner.end();
}

type Document = Extract<Scan, { readonly ok: true }>;

async function viewDocument(
  path: string,
  pointers: readonly string[],
  { document, find }: Document,
): Promise<Printout['stdout']> {
  const parts = new Map<string, Part>();
  for (const pointer of pointers) {
    const range = find(pointer);
    if (range) parts.set(pointer, await readPart(path, range));
  }
  return { whole: await readPart(path, document), find: (pointer) => parts.get(pointer) };
}

async function readPart(path: string, { start, end }: ByteRange): Promise<Part> {
  if (end - start <= PART_BYTES)
    return { value: parseJson(decodeUtf8(await readRange(path, { start, end }))) };
  const [first] = await readRange(path, { start, end: start + 1 });
  return { large: `${KINDS[String.fromCharCode(first ?? 0)] ?? 'a number'} of ${end - start} bytes` };
}
const KINDS: Partial<Record<string, string>> = { '{': 'an object', '[': 'a list', '"': 'a string' };

async function viewText(
  { path, end }: FileRange,
  trimmed: FileRange,
  { at, message }: Exclude<Scan, Document>,
): Promise<Printout['stdout']> {
  const said = await lastWords({ path, start: 0, end }, trimmed.end);
  const head = decodeUtf8(await readRange(path, { start: 0, end: Math.min(end, INSPECTED_CHARACTERS) }));
  const isWhole = end <= INSPECTED_CHARACTERS || said === BLANK;
  const tail = isWhole ? null : await textBefore(path, end, WORDS_BYTES);
  return {
    said: said === BLANK ? null : said,
    explain: () => explainJsonFailure(head, `${message} at byte ${at}`, tail),
  };
}

/** The end of a text that has `trimmed` bytes before its trailing white space; a blank when it has none. */
async function lastWords({ path, end }: FileRange, trimmed: number): Promise<string> {
  return trimmed === 0 && end > 0 ? BLANK : textBefore(path, trimmed, WORDS_BYTES);
}
const BLANK = ' ';

/** JSON text: as given, from a file as written there, or a file's text inside a string. */
type Piece = string | { readonly json: FileRange } | { readonly text: FileRange };

/** The value as JSON text, keys in the order of canonical JSON. */
function piecesOf(choice: Choice, scan: Scan, stdout: FileRange, stderr: FileRange): Piece[] {
  const end: Piece[] = [',"stderr":"', { text: stderr }, '"}'];
  if (choice.kind === 'text' || !scan.ok) {
    const error = choice.kind === 'text' ? choice.parse_error : null;
    const begin = error === null ? '{' : `{"parse_error":${JSON.stringify(error)},`;
    return [`${begin}"raw":"`, { text: stdout }, '"', ...end];
  }
  const { path } = stdout;
  const whole: Piece = { json: { path, ...scan.document } };
  if (choice.kind === 'missing') return [`{"error":${JSON.stringify(choice.error)},"raw":`, whole, ...end];
  const part = choice.pointer === null ? undefined : scan.find(choice.pointer);
  return [part ? { json: { path, ...part } } : whole];
}

function sizeOfPiece(piece: Piece): number {
  if (typeof piece === 'string') return piece.length;
  const { start, end } = 'json' in piece ? piece.json : piece.text;
  return end - start;
}

async function* write(pieces: readonly Piece[]): AsyncGenerator<Uint8Array> {
  for (const piece of pieces) {
    if (typeof piece === 'string') yield Buffer.from(piece);
    else if ('json' in piece) yield* textChunksOf(piece.json.path, piece.json);
    else yield* escaped(piece.text);
  }
}

async function* escaped(range: FileRange): AsyncGenerator<Uint8Array> {
  const size = MOST_ESCAPED * Math.min(CHUNK_BYTES, range.end - range.start);
  let [buffer, other] = [Buffer.allocUnsafe(size), Buffer.allocUnsafe(size)];
  for await (const chunk of textChunksOf(range.path, range)) {
    yield buffer.subarray(0, escapeInto(buffer, chunk));
    [buffer, other] = [other, buffer];
  }
}
