/** One attempt of a template, as tests need it again and again. */
import { runAttempt } from '../../lib/attempt.ts';
import { StepspawnError } from '../../lib/errors.ts';
import type { JsonObject } from '../../lib/json.ts';
import type { RunPorts } from '../../lib/run.ts';
import type { Task, TaskResult } from '../../lib/task.ts';
import { oneStep } from './documents.ts';

let made = 0;

export function taskOf(template: JsonObject, given: Partial<Task> = {}): Task {
  return {
    task_id: `T-${process.pid}-${made++}`,
    attempt: 1,
    agent: 'w',
    blueprint: oneStep(template),
    in: '',
    ...given,
  };
}

export function attempt(
  ports: RunPorts,
  template: JsonObject,
  given: Partial<Task> = {},
): Promise<TaskResult> {
  return runAttempt(taskOf(template, given), ports);
}

/** A shell script as the child. */
export function shell(script: string, rest: JsonObject = {}): JsonObject {
  return { argv: ['sh', '-c', script], ...rest };
}

/** The error that an attempt is expected to throw. */
export async function refusal(running: Promise<unknown>): Promise<StepspawnError> {
  const answer = await running.catch((error: unknown) => error);
  if (answer instanceof StepspawnError) return answer;
  throw new Error(`expected a refusal, got ${JSON.stringify(answer)}`);
}
