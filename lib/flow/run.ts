/** A flow under way: a machine of lanes with explicit stacks, fed with the results of its steps. */
import type { FanoutNode, FlowNode, StepNode } from '../blueprint/flow-schema.ts';
import type { JsonValue } from '../json.ts';
import { fork, openContext, type Snapshot, share, write } from './context.ts';
import { chosen, nextInside } from './control.ts';
import { burn, evaluate, type Fuel, MAX_EVALUATIONS } from './expression.ts';
import { type FlowError, FlowFailure, typeName } from './failure.ts';
import { fold } from './fold.ts';
import { join } from './join.ts';
import type { Fanout, Lane, Place, PlannedStep, Settled } from './lane.ts';
import { begin, rollback, snapshot } from './rollback.ts';
import { stepInput } from './step-input.ts';
import { type StepResult, stepError } from './step-result.ts';

/** Lanes that may be open at a time. */
export const MAX_LANES = 250_000;

export interface FlowInput {
  readonly flow: FlowNode;
  /** the initial context; never changed */
  readonly ctx: JsonValue;
  /** the Blueprint's metas: name to ctx */
  readonly metas: ReadonlyMap<string, JsonValue>;
  /** recorded by an earlier evaluation: position of a fanout to the lane that decided it */
  readonly decisions?: ReadonlyMap<string, number>;
}

export type FlowStatus =
  | { readonly status: 'running' }
  | { readonly status: 'done'; readonly ctx: JsonValue }
  | { readonly status: 'failed'; readonly error: FlowError; readonly ctx: JsonValue };

export interface FlowRun {
  /** steps that have become ready since the last call, in dispatch order */
  pending(): PlannedStep[];
  /** positions of steps given out by `pending` whose outcome no longer matters, since the last call */
  takeDropped(): string[];
  /** feeds a result; one for a step that is not waiting (dropped, or fed before) changes nothing */
  settle(position: string, result: StepResult): void;
  readonly status: FlowStatus;
  /** decisions made so far beyond those given: store them before dispatching what follows */
  readonly decisions: ReadonlyMap<string, number>;
}

/** Starts a flow and evaluates it up to its first steps. Never throws for what a flow or a result holds. */
export function startFlow({ flow, ctx, metas, decisions: given = new Map() }: FlowInput): FlowRun {
  const fuel: Fuel = { left: MAX_EVALUATIONS };
  const ready: Lane[] = [];
  const waiting = new Map<string, Lane>();
  const decisions = new Map<string, number>();
  let fresh: Lane[] = [];
  let dropped: string[] = [];
  let status: FlowStatus = { status: 'running' };
  let lanes = 0;
  let turn = 0;

  function openLane(start: Place, saved: Snapshot, of: Pick<Lane, 'fanout' | 'index'>): Lane {
    lanes++;
    const idle = { frames: [], waiting: null, inner: null, closed: false };
    return { ...idle, ...of, context: fork(saved), entering: start };
  }

  /** Ends a lane without an outcome, with all that it waits for. */
  function close(lane: Lane): void {
    if (lane.closed) return;
    lane.closed = true;
    lanes--;
    if (lane.waiting) {
      const { step, announced } = lane.waiting;
      waiting.delete(step.position);
      if (announced) dropped.push(step.position);
    }
    lane.inner?.lanes.forEach(close);
  }

  function advance(lane: Lane): void {
    while (!lane.closed && !lane.waiting && !lane.inner) {
      attempt(lane, () => {
        burn(fuel);
        if (lane.entering) enter(lane, lane.entering);
        else resume(lane);
      });
    }
  }

  function attempt(lane: Lane, action: () => void): void {
    try {
      action();
    } catch (error) {
      if (!(error instanceof FlowFailure)) throw error;
      const reason: FlowError = { message: error.message, positions: [] };
      if (error.kind === 'endless') finish({ ok: false, error: reason });
      else fail(lane, reason);
    }
  }

  function enter(lane: Lane, { node, at }: Place): void {
    const { context, frames } = lane;
    const scope = { context, fuel };
    lane.entering = null;
    switch (node.kind) {
      case 'step':
        dispatch(lane, node, at);
        break;
      case 'seq':
        frames.push({ node, at, next: 0 });
        break;
      case 'branch':
        lane.entering = chosen(node, at, scope);
        break;
      case 'loop':
        write(context, node.counter, 0);
        frames.push({ node, at, round: 0, inside: false });
        break;
      case 'fanout':
        spread(lane, node, at);
        break;
      case 'try':
        begin(context);
        frames.push({ node, at, marked: true });
        lane.entering = { node: node.body, at: `${at}/body` };
        break;
      case 'assign':
        write(context, node.at, share(context, evaluate(node.value, context, fuel)));
        break;
      case 'let':
        write(context, node, share(context, evaluate(node.value, context, fuel)));
        break;
      default:
        throw new FlowFailure(`unknown kind of node at ${at}: ${JSON.stringify(node satisfies never)}`);
    }
  }

  /** Goes on inside the innermost frame, whose last child is complete. */
  function resume(lane: Lane): void {
    const frame = lane.frames.at(-1);
    if (frame === undefined) settleLane(lane, { ok: true, value: lane.context.root });
    else {
      lane.entering = nextInside(frame, { context: lane.context, fuel });
      if (lane.entering === null) lane.frames.pop();
    }
  }

  function dispatch(lane: Lane, node: StepNode, position: string): void {
    const value = share(lane.context, evaluate(node.in, lane.context, fuel));
    const step: PlannedStep = { position, ref: node.ref, ...stepInput(value, metas) };
    lane.waiting = { node, step, announced: false };
    waiting.set(position, lane);
    fresh.push(lane);
  }

  function spread(owner: Lane, node: FanoutNode, at: string): void {
    const items = fanoutItems(node, evaluate(node.items, owner.context, fuel));
    if (items.length === 0) {
      write(owner.context, node.out, []);
      return;
    }
    const decided = node.join === 'all_settled' ? undefined : given.get(at);
    const only = decided !== undefined && decided < items.length ? decided : null;
    const results = new Array<JsonValue>(items.length).fill(null);
    const saved = snapshot(owner.context);
    const fanout = { node, at, owner, items, saved, lanes: [], only, open: 0, turn, results, failed: [] };
    openLanes(fanout, only === null ? [...items.keys()] : [only]);
  }

  function openLanes(fanout: Fanout, indices: readonly number[]): void {
    const { node, at, owner, saved, items } = fanout;
    owner.inner = fanout;
    try {
      if (lanes + indices.length > MAX_LANES)
        throw new FlowFailure(`fanout of ${items.length} items would open over ${MAX_LANES} lanes at a time`);
      for (const index of indices) {
        burn(fuel);
        const start = { node: node.body, at: `${at}/body/${index}` };
        const lane = openLane(start, saved, { fanout, index });
        fanout.open++;
        fanout.lanes.push(lane);
        ready.push(lane);
        write(lane.context, node.bind, items[index]!);
      }
    } catch (error) {
      fanout.lanes.forEach(close);
      owner.inner = null;
      throw error;
    }
  }

  function settleLane(lane: Lane, outcome: Settled): void {
    const { fanout, index } = lane;
    if (fanout === null) {
      finish(outcome);
      return;
    }
    close(lane);
    if (fanout.only !== null && fanout.node.join === 'all' && outcome.ok) reopen(fanout);
    if (fanout.owner.inner !== fanout) return;
    const joined = join(fanout, index, outcome);
    if (joined === null) return;
    const { owner, node, items } = fanout;
    const byTime = fanout.turn !== turn && fanout.only === null && items.length > 1;
    if (byTime && joined.by !== undefined) decisions.set(fanout.at, joined.by);
    fanout.lanes.forEach(close);
    owner.inner = null;
    if (joined.ok) attempt(owner, () => write(owner.context, node.out, joined.value));
    else fail(owner, joined.error);
    ready.push(owner);
  }

  /** The lane that was to end an `all` did not (its step had a new attempt): the others matter after all. */
  function reopen(fanout: Fanout): void {
    const others = [...fanout.items.keys()].filter((index) => index !== fanout.only);
    fanout.only = null;
    attempt(fanout.owner, () => openLanes(fanout, others));
    ready.push(fanout.owner);
  }

  /** Unwinds to the innermost `try` that is in its body, else ends the lane. */
  function fail(lane: Lane, error: FlowError): void {
    for (let frame = lane.frames.pop(); frame; frame = lane.frames.pop()) {
      if (!('marked' in frame) || !frame.marked) continue;
      const { node, at } = frame;
      rollback(lane.context);
      lane.frames.push({ node, at, marked: false });
      lane.entering = { node: node.catch, at: `${at}/catch` };
      const { err_at } = node;
      if (err_at) attempt(lane, () => write(lane.context, err_at, error.message));
      return;
    }
    settleLane(lane, { ok: false, error });
  }

  function finish(outcome: Settled): void {
    const ctx = root.context.root;
    status = outcome.ok ? { status: 'done', ctx } : { status: 'failed', error: outcome.error, ctx };
    close(root);
  }

  function settle(position: string, result: StepResult): void {
    const lane = waiting.get(position);
    if (!lane?.waiting) return;
    const { node } = lane.waiting;
    waiting.delete(position);
    lane.waiting = null;
    attempt(lane, () => {
      if (result.status === 'passed') {
        write(lane.context, node.out, result.fold === false ? result.value : fold(result.value));
      } else fail(lane, stepError(node.ref, position, result));
    });
    ready.push(lane);
    drain();
  }

  function drain(): void {
    for (const lane of ready) advance(lane);
    ready.length = 0;
    fuel.left = MAX_EVALUATIONS;
    turn++;
  }

  const start: Place = { node: flow, at: '' };
  const root = openLane(start, { root: ctx, size: 0 }, { fanout: null, index: 0 });
  attempt(root, () => {
    root.context = openContext(ctx);
  });
  ready.push(root);
  drain();

  return {
    pending() {
      const steps = fresh.flatMap(({ closed, waiting: awaited }) => {
        if (closed || !awaited || awaited.announced) return [];
        awaited.announced = true;
        return [awaited.step];
      });
      fresh = [];
      return steps;
    },
    takeDropped() {
      const positions = dropped;
      dropped = [];
      return positions;
    },
    settle,
    get status() {
      return status;
    },
    decisions,
  };
}

function fanoutItems(node: FanoutNode, items: JsonValue): JsonValue[] {
  if (!Array.isArray(items))
    throw new FlowFailure(`the items of a fanout must be an array, not ${typeName(items)}`);
  if (items.length === 0 && (node.join === 'any' || node.join === 'race'))
    throw new FlowFailure(`a fanout with join ${node.join} needs at least one item`);
  return items;
}
