/** New attempts that a template's rule asks for: which, and when. */
import type { Retry } from './blueprint/schema.ts';
import { now } from './clock.ts';
import { StepspawnError } from './errors.ts';
import { MAX_ATTEMPT, type NextAttempt, type Task, type TaskResult } from './task.ts';

const DEFAULT_BACKOFF_SECS = 1;
const LONGEST_BACKOFF_SECS = 900;

/**
 * The attempt after one whose result matches the rule, or null when that was the last of `max_attempts` from the first
 * one on. The second waits for `backoff_secs`, each later one twice as long as the one before, 15 minutes at the most.
 */
export function nextAttempt(
  { max_attempts, backoff_secs }: Retry,
  { attempt, first_attempt = 1 }: Pick<Task, 'attempt' | 'first_attempt'>,
): NextAttempt | null {
  const before = attempt - first_attempt;
  if (before + 1 >= max_attempts || attempt >= MAX_ATTEMPT) return null;
  const secs = Math.min((backoff_secs ?? DEFAULT_BACKOFF_SECS) * 2 ** before, LONGEST_BACKOFF_SECS);
  return { attempt: attempt + 1, not_before: new Date(now() + secs * 1000).toISOString() };
}

/** Runs attempts as long as their results ask for another one; all of them, the newest last. */
export async function followRetries(
  first: number,
  run: (attempt: number) => Promise<TaskResult>,
  wait: (result: TaskResult, next: NextAttempt) => Promise<void>,
): Promise<[TaskResult, ...TaskResult[]]> {
  const results: [TaskResult, ...TaskResult[]] = [await run(first)];
  for (let last = results[0]; last.retry; ) {
    await wait(last, last.retry);
    last = await run(last.retry.attempt);
    results.push(last);
  }
  return results;
}

/** Throws RetryDue while it is too early for the attempt. */
export function throwUntilDue({ task_id, attempt, reason }: TaskResult, next: NextAttempt): void {
  if (now() >= Date.parse(next.not_before)) return;
  const message = `attempt ${attempt} of task ${task_id} is not ok (${reason}); attempt ${next.attempt} may start at ${next.not_before}`;
  throw new StepspawnError('RetryDue', message);
}
