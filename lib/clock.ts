/** The only door to the clock. */

let last = 0;

/** Milliseconds since the epoch. */
export function now(): number {
  return Date.now();
}

/** RFC 3339 in UTC with microseconds; within this process each call gives a later time than the one before. */
export function timestamp(): string {
  last = Math.max(Math.round((performance.timeOrigin + performance.now()) * 1000), last + 1);
  const micros = String(last % 1_000_000).padStart(6, '0');
  return `${new Date(Math.floor(last / 1000)).toISOString().slice(0, 19)}.${micros}Z`;
}
