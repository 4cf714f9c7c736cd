/** Limits that contain each other: a child ends before its function, a function before the state that calls it. */

export interface Limit {
  /** the key or property that sets it */
  readonly name: string;
  readonly secs: number;
}

/** What a function needs beyond its child: start, ending the child, storing the result. */
export const CHILD_TO_FUNCTION_SECS = 15;
/** What a state needs beyond its function, so that the function's own end is what it sees. */
export const FUNCTION_TO_STATE_SECS = 10;
/** What a state gets beyond its function unless it is told otherwise. */
export const STATE_MARGIN_SECS = 30;
/** The longest that AWS lets a function run. */
export const LONGEST_FUNCTION_SECS = 900;

/** What is wrong between two limits of which `outer` contains `inner`; null when nothing is. */
export function nestingFault(inner: Limit, outer: Limit, margin: number): string | null {
  if (outer.secs >= inner.secs + margin) return null;
  return `${outer.name}=${outer.secs} is too short: it contains ${inner.name}=${inner.secs}; allowed is ${inner.secs + margin} or more`;
}
