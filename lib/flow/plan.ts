/** The pure, replayable evaluation of a flow from the results so far. */
import type { JsonValue } from '../json.ts';
import type { FlowError } from './failure.ts';
import type { PlannedStep } from './lane.ts';
import { type FlowInput, type FlowRun, startFlow } from './run.ts';
import type { StepResult } from './step-result.ts';

export interface PlanInput extends FlowInput {
  readonly results: Results;
}

/** Position of a step to what became of it. */
export type Results = ReadonlyMap<string, StepResult>;

export type Plan = (
  | { readonly status: 'done'; readonly ctx: JsonValue }
  | { readonly status: 'failed'; readonly error: FlowError; readonly ctx: JsonValue }
  /** every step that is waited for and has no result, in dispatch order */
  | { readonly status: 'dispatch'; readonly steps: PlannedStep[] }
) & {
  /** decisions beyond those given: store them before dispatching */
  readonly decisions: ReadonlyMap<string, number>;
};

/**
 * Evaluates a flow from its start. Results of concurrent steps count in the order of `completed_at`, unless a
 * decision says which lane decided. Never throws for what a flow or a result holds.
 */
export function plan({ results, ...input }: PlanInput): Plan {
  const planning = startPlanning(input);
  feed(planning, results);
  return planOf(planning);
}

/** A flow under way, with the steps that it waits for in dispatch order. */
export interface Planning {
  readonly run: FlowRun;
  readonly outstanding: Map<string, PlannedStep>;
}

/** Evaluates a flow up to its first steps. */
export function startPlanning(input: FlowInput): Planning {
  const planning = { run: startFlow(input), outstanding: new Map<string, PlannedStep>() };
  takeSteps(planning);
  return planning;
}

/** Goes on as far as results reach: those of steps that are waited for, and of the steps that follow from them. */
export function feed(planning: Planning, results: Results): void {
  const { run, outstanding } = planning;
  const arrived: Arrival[] = [];
  let count = 0;
  const arrive = (steps: Iterable<PlannedStep>): void => {
    for (const { position } of steps) {
      const result = results.get(position);
      if (result) push(arrived, { position, result, order: count++ });
    }
  };
  arrive(outstanding.values());
  while (run.status.status === 'running') {
    const next = pop(arrived);
    if (next === undefined) return;
    outstanding.delete(next.position);
    run.settle(next.position, next.result);
    arrive(takeSteps(planning));
  }
}

/** What is to be done now. */
export function planOf({ run, outstanding }: Planning): Plan {
  const { status, decisions } = run;
  return status.status === 'running'
    ? { status: 'dispatch', steps: [...outstanding.values()], decisions }
    : { ...status, decisions };
}

/** The steps that have become ready; those whose outcome no longer matters are not waited for any more. */
function takeSteps({ run, outstanding }: Planning): PlannedStep[] {
  for (const position of run.takeDropped()) outstanding.delete(position);
  const steps = run.pending();
  for (const step of steps) outstanding.set(step.position, step);
  return steps;
}

interface Arrival {
  readonly position: string;
  readonly result: StepResult;
  readonly order: number;
}

function isBefore(a: Arrival, b: Arrival): boolean {
  const [left, right] = [a.result.completed_at, b.result.completed_at];
  return left === right ? a.order < b.order : left < right;
}

/** Adds to a binary heap whose first entry is the earliest. */
function push(heap: Arrival[], arrival: Arrival): void {
  let at = heap.length;
  while (at > 0) {
    const up = (at - 1) >> 1;
    if (!isBefore(arrival, heap[up]!)) break;
    heap[at] = heap[up]!;
    at = up;
  }
  heap[at] = arrival;
}

/** Removes the earliest. */
function pop(heap: Arrival[]): Arrival | undefined {
  const first = heap[0];
  const moved = heap.pop();
  if (moved === undefined || heap.length === 0) return first;
  let at = 0;
  for (;;) {
    let down = 2 * at + 1;
    if (down + 1 < heap.length && isBefore(heap[down + 1]!, heap[down]!)) down++;
    if (down >= heap.length || !isBefore(heap[down]!, moved)) break;
    heap[at] = heap[down]!;
    at = down;
  }
  heap[at] = moved;
  return first;
}
