/** The parts of a flow that is under way: lanes, what they are inside of, and the fanouts that join them. */
import type { FanoutNode, FlowNode, LoopNode, SeqNode, StepNode, TryNode } from '../blueprint/flow-schema.ts';
import type { JsonValue } from '../json.ts';
import type { Context, Snapshot } from './context.ts';
import type { FlowError } from './failure.ts';
import type { StepInput } from './step-input.ts';

/** A step to dispatch. */
export interface PlannedStep extends StepInput {
  /** the place in the flow, loop rounds and lanes included: `/children/3/body/17`; unique in a run */
  readonly position: string;
  /** name of the agent */
  readonly ref: string;
}

/** A node and its position. */
export interface Place {
  readonly node: FlowNode;
  readonly at: string;
}

/** A node that a lane is inside of. */
export type Frame =
  | { readonly node: SeqNode; readonly at: string; next: number }
  | { readonly node: LoopNode; readonly at: string; round: number; inside: boolean }
  /** marked: in its body, whose writes can be rolled back */
  | { readonly node: TryNode; readonly at: string; readonly marked: boolean };

/** One line of control: the run itself, or one item of a fanout. */
export interface Lane {
  context: Context;
  readonly frames: Frame[];
  /** the node to evaluate next; null when the last one is complete */
  entering: Place | null;
  /** what the lane waits for, if anything */
  waiting: { readonly node: StepNode; readonly step: PlannedStep; announced: boolean } | null;
  inner: Fanout | null;
  closed: boolean;
  readonly fanout: Fanout | null;
  readonly index: number;
}

export interface Fanout {
  readonly node: FanoutNode;
  readonly at: string;
  readonly owner: Lane;
  readonly items: readonly JsonValue[];
  /** the context that every lane starts with */
  readonly saved: Snapshot;
  readonly lanes: Lane[];
  /** the lane that is known to decide; then no other is run */
  only: number | null;
  /** lanes that have to settle before the fanout must */
  open: number;
  /** the turn of the run in which it began */
  readonly turn: number;
  readonly results: JsonValue[];
  readonly failed: string[];
}

export type Settled =
  | { readonly ok: true; readonly value: JsonValue }
  | { readonly ok: false; readonly error: FlowError };

/** The outcome of a fanout, and the lane that decided it where another order could have decided otherwise. */
export type Joined = Settled & { readonly by?: number };
