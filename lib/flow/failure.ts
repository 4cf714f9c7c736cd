/** What goes wrong inside a flow: thrown while a node is evaluated, data once it has ended a run. */
import { isRaw, type JsonValue } from '../json.ts';

/** Why a run failed. */
export interface FlowError {
  readonly message: string;
  /** the agent of the step that failed; absent for an error of the flow itself */
  readonly failed_step?: string;
  /** the value of a step that was not ok; absent for any other failure */
  readonly verdict_value?: JsonValue;
  /** positions of the steps whose failure ended the run; none for an error of the flow itself */
  readonly positions: readonly string[];
}

/** ordinary: a `try` catches it · path_missing: likewise, and `exists` is false · endless: nothing catches it */
export type FailureKind = 'ordinary' | 'path_missing' | 'endless';

/** An error of the flow itself: a missing path, a wrong type, a context that grows too large. */
export class FlowFailure extends Error {
  readonly kind: FailureKind;
  constructor(message: string, kind: FailureKind = 'ordinary') {
    super(message);
    this.name = 'FlowFailure';
    this.kind = kind;
  }
}

/** The word for a value's type in messages. */
export function typeName(value: JsonValue): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  return isRaw(value) ? 'number' : typeof value;
}
