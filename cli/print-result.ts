/** Prints a result with its value, of any size. */
import { pipeline } from 'node:stream/promises';
import { withoutSpace } from '../lib/json-space.ts';
import { openValue } from '../lib/settle.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import type { TaskResult } from '../lib/task.ts';
import { print } from './output.ts';

/** The result with its value inline and last; a value that is referenced passes through in chunks, however large. */
export async function printResult(store: ObjectStore, result: TaskResult): Promise<void> {
  const { value_ref, preview: _, value = null, ...rest } = result;
  if (result.error) print(rest);
  else if (!value_ref) print({ ...rest, value });
  else await printChunks(aroundValue(rest, await openValue(store, result)));
}

async function* aroundValue(rest: object, value: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield Buffer.from(`${JSON.stringify(rest).slice(0, -1)},"value":`);
  yield* withoutSpace(value);
  yield Buffer.from('}\n');
}

/** Waits for whoever reads stdout; one who reads no further is no failure. */
async function printChunks(chunks: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    await pipeline(chunks, process.stdout, { end: false });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPIPE')) throw error;
  }
}
