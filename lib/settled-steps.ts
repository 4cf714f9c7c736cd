/** What earlier hops of a round found settled, in one object: a long run is not read again step by step at every hop. */
import { compactJson } from './json.ts';
import type { SettledStep } from './step.ts';
import { runKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { parseStored } from './store/result-store.ts';
import type { Round } from './store/run-store.ts';

/** A step with a larger value is read from its own result. */
const STEP_CHARS = 16_000;
const ALL_CHARS = 16_000_000;

/** By position; a part of what is settled, or nothing. */
export async function readSettled(store: ObjectStore, round: Round): Promise<Map<string, SettledStep>> {
  const key = keyOf(round);
  const found = await store.read(key);
  return new Map(found ? (parseStored(key, found) as unknown as [string, SettledStep][]) : []);
}

/** Leaves out what is large: nothing depends on a step being there. */
export async function writeSettled(
  store: ObjectStore,
  round: Round,
  settled: ReadonlyMap<string, SettledStep>,
): Promise<void> {
  const kept: string[] = [];
  let chars = 0;
  for (const step of settled) {
    const text = compactJson(step);
    if (text.length > STEP_CHARS || chars + text.length > ALL_CHARS) continue;
    chars += text.length;
    kept.push(text);
  }
  await store.upload(keyOf(round), async function* () {
    yield Buffer.from(`[${kept.join(',')}]`);
  });
}

function keyOf({ run_id, number }: Round): string {
  return runKey(run_id, `${number}/settled.json`);
}
