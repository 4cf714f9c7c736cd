/**
 * What earlier hops of a round found settled: `runs/<id>/<round>/settled/<number>.json` has what is new since the entry
 * before it, `<number>-all.json` all so far. A hop of a long run writes what is new, and reads only where it knows
 * nothing yet. Nothing depends on a step being there: one that is not is read from its own result.
 */
import { compactJson } from './json.ts';
import type { SettledStep } from './step.ts';
import { runKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import { parseStored } from './store/result-store.ts';
import type { Round } from './store/run-store.ts';

/** By position. */
export type SettledSteps = Map<string, SettledStep>;

export interface Journal {
  /** Writes down what is new in `settled`, all of it once in a while: about twice the size of a run in all. */
  readonly write: (settled: SettledSteps, fresh: readonly string[]) => Promise<void>;
}

/** A step with a larger value is read from its own result. */
const STEP_CHARS = 16_000;
const ALL_CHARS = 16_000_000;
/** Entries that are read one by one before all is written again. */
const ENTRIES = 64;

/** A part of what is settled, or nothing, and the journal to go on with. */
export async function openJournal(
  store: ObjectStore,
  round: Round,
): Promise<{ readonly settled: SettledSteps; readonly journal: Journal }> {
  const prefix = runKey(round.run_id, `${round.number}/settled/`);
  const keys = await store.list(prefix);
  const newest = keys.slice(
    Math.max(
      0,
      keys.findLastIndex((key) => key.endsWith(ALL)),
    ),
  );
  const parts = await Promise.all(newest.map((key) => readEntry(store, key)));
  const settled: SettledSteps = new Map(parts.flat());
  const last = keys.at(-1);
  const state = {
    next: last === undefined ? 0 : numberOf(last) + 1,
    entries: newest.length,
    chars: 0,
    all: 0,
  };
  return {
    settled,
    journal: { write: (steps, fresh) => writeEntry(store, prefix, state, { steps, fresh }) },
  };
}

const ALL = '-all.json';

async function readEntry(store: ObjectStore, key: string): Promise<[string, SettledStep][]> {
  const found = await store.read(key);
  return found ? (parseStored(key, found) as unknown as [string, SettledStep][]) : [];
}

function numberOf(key: string): number {
  return Number(/(\d+)(?:-all)?\.json$/.exec(key)?.[1] ?? 0);
}

interface JournalState {
  next: number;
  /** since all was written: how many, and their characters */
  entries: number;
  chars: number;
  /** characters of the last entry that has all */
  all: number;
}

async function writeEntry(
  store: ObjectStore,
  prefix: string,
  state: JournalState,
  { steps, fresh }: { readonly steps: SettledSteps; readonly fresh: readonly string[] },
): Promise<void> {
  const isAll = state.entries >= ENTRIES && state.chars >= state.all;
  const text = textOf(steps, isAll ? steps.keys() : fresh);
  const name = `${String(state.next++).padStart(8, '0')}${isAll ? ALL : '.json'}`;
  if (isAll) Object.assign(state, { entries: 1, chars: 0, all: text.length });
  else {
    state.entries++;
    state.chars += text.length;
  }
  // an entry of the same number is that of another process at the same round: what it has is as good
  await store.create(`${prefix}${name}`, text);
}

function textOf(steps: SettledSteps, positions: Iterable<string>): string {
  const kept: string[] = [];
  let chars = 0;
  for (const position of positions) {
    const text = compactJson([position, steps.get(position)]);
    if (text.length > STEP_CHARS || chars + text.length > ALL_CHARS) continue;
    chars += text.length;
    kept.push(text);
  }
  return `[${kept.join(',')}]`;
}
