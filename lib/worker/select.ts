/** Picks records out of what a program printed and writes the one document that they make, of any size. */
import { randomBytes } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import { type SubprocessOutput, selectionsOf } from '../blueprint/output-schema.ts';
import type { ByteRange } from '../json-scan.ts';
import type { Selected } from './decision.ts';
import { rangesOf } from './file-range.ts';
import { readLines, readList } from './records.ts';
import { diskError } from './scratch.ts';
import { createTaker, isJoined, pointersOf, type Taker, tookNothing } from './taker.ts';

/** Whether the template picks records out of the output. */
export function picksRecords(output: SubprocessOutput | null): output is SubprocessOutput {
  return output != null && (output.select != null || output.format === 'jsonl');
}

/**
 * Reads the records of the file once, in bounded memory, and writes what is selected of them beside it. `document`
 * is the path of the JSON document that pointers apply to, null where there is none.
 */
export async function selectRecords(
  { path, name = path }: { readonly path: string; readonly name?: string },
  output: SubprocessOutput,
): Promise<{ readonly selected: Selected; readonly document: string | null }> {
  const takers = [...selectionsOf(output)].map(([name, selection]) => createTaker(name, selection));
  const read = output.format === 'jsonl' ? readLines : readList;
  const printed = await read(path, pointersOf(takers), (record) => {
    for (const taker of takers) taker.offer(record);
  });
  const { records, unreadable, warnings } = printed;
  const selected = { unreadable, nothing: null, notes: [], warnings };
  if (records === null) return { selected, document: null };
  const notes = takers.flatMap((taker) => tookNothing(taker, records) ?? []);
  const [only] = takers.length === 1 && takers[0]!.name === '' ? takers : [];
  const about = only ? { nothing: notes[0] ?? null } : { notes };
  const document = `${name}.${randomBytes(6).toString('hex')}`;
  await writeDocument(path, document, only ? piecesOf(only) : namedPieces(takers));
  return { selected: { ...selected, ...about }, document };
}

/** JSON text, or a range of the output that holds some. */
type Piece = string | ByteRange;

function* namedPieces(takers: readonly Taker[]): Generator<Piece> {
  let before = '{';
  for (const taker of takers) {
    if (taker.taken() === null) continue;
    yield `${before}${JSON.stringify(taker.name)}:`;
    yield* piecesOf(taker);
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}

function* piecesOf(taker: Taker): Generator<Piece> {
  const taken = taker.taken();
  if (taken === null) yield 'null';
  else if (taker.selection.take !== 'all') yield* taken;
  else if (isJoined(taker)) {
    yield '"';
    const between = JSON.stringify(taker.selection.join).slice(1, -1);
    let isFirst = true;
    for (const { start, end } of taken) {
      if (!isFirst) yield between;
      isFirst = false;
      yield { start: start + 1, end: end - 1 };
    }
    yield '"';
  } else {
    let before = '[';
    for (const range of taken) {
      yield before;
      yield range;
      before = ',';
    }
    yield before === '[' ? '[]' : ']';
  }
}

async function writeDocument(from: string, to: string, pieces: Iterable<Piece>): Promise<void> {
  try {
    // the child may have removed the folder
    await mkdir(dirname(to), { recursive: true, mode: 0o700 });
    const file = await open(to, 'wx', 0o600);
    try {
      await file.writeFile(rangesOf(from, pieces));
    } finally {
      await file.close();
    }
  } catch (error) {
    throw diskError(error, to);
  }
}
