/** How the outcomes of a fanout's lanes become its own. */
import type { FanoutNode } from '../blueprint/flow-schema.ts';
import type { JsonObject } from '../json.ts';
import type { Fanout, Joined, Settled } from './lane.ts';

/** Counts a lane's outcome in; answers the fanout's own once it is known. */
export function join(fanout: Fanout, index: number, outcome: Settled): Joined | null {
  fanout.open--;
  return JOINS[fanout.node.join](fanout, index, outcome);
}

type Join = (fanout: Fanout, index: number, outcome: Settled) => Joined | null;

const JOINS: Readonly<Record<FanoutNode['join'], Join>> = {
  all(fanout, index, outcome) {
    if (!outcome.ok) return { ...outcome, by: index };
    fanout.results[index] = outcome.value;
    return fanout.open === 0 ? { ok: true, value: fanout.results } : null;
  },
  all_settled(fanout, index, outcome) {
    fanout.results[index] = settledRecord(outcome);
    return fanout.open === 0 ? { ok: true, value: fanout.results } : null;
  },
  any(fanout, index, outcome) {
    if (outcome.ok) return { ...outcome, by: index };
    for (const position of outcome.error.positions) fanout.failed.push(position);
    if (fanout.open > 0) return null;
    return { ok: false, error: { ...outcome.error, positions: fanout.failed }, by: index };
  },
  race: (_fanout, index, outcome) => ({ ...outcome, by: index }),
};

function settledRecord(outcome: Settled): JsonObject {
  return outcome.ok
    ? { status: 'fulfilled', value: outcome.value }
    : { status: 'rejected', reason: outcome.error.message };
}
