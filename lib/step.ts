/** A planned step as a task, and what its result means to the flow: the same locally and on a platform. */
import { timestamp } from './clock.ts';
import type { PlannedStep } from './flow/lane.ts';
import type { StepResult } from './flow/step-result.ts';
import { isObject, type JsonObject, type JsonValue, sha256 } from './json.ts';
import { type Spent, spentBy, sumSpent } from './spent.ts';
import type { StepEntry } from './store/run-store.ts';
import type { TaskResult } from './task.ts';
import type { Blueprint } from './validate.ts';
import { keepsText } from './worker/render.ts';

/** Both objects: shallow, the request's keys win; otherwise the request's value replaces the default. */
export function initialContext(blueprint: Blueprint, given: JsonValue | undefined): JsonValue {
  const preset = blueprint.compiled.default_init_ctx;
  if (given === undefined) return preset ?? {};
  return isObject(given) && isObject(preset) ? { ...preset, ...given } : given;
}

/** `ST-` and 32 hex digits: the same step of the same run has the same id, whoever runs it. */
export function stepTaskId(runId: string, position: string): string {
  return `ST-${sha256(`${runId}\n${position}`).slice(0, 32)}`;
}

/** The request of a step without its Blueprint and input. */
export interface StepTask {
  readonly task_id: string;
  readonly attempt: number;
  readonly first_attempt: number;
  readonly agent: string;
  readonly context: JsonObject;
}

/** The task of a step: launch context over the step's own, and the attempt number of its round. */
export function stepTask(of: {
  readonly run_id: string;
  readonly context: JsonObject;
  readonly attempts: Readonly<Record<string, number>>;
  readonly step: PlannedStep;
}): StepTask {
  const { run_id, step } = of;
  const task_id = stepTaskId(run_id, step.position);
  const context = { ...step.step_ctx, ...of.context, run_id };
  const attempt = of.attempts[task_id] ?? 1;
  return { task_id, attempt, first_attempt: attempt, agent: step.ref, context };
}

export interface SettledStep {
  readonly entry: StepEntry;
  readonly result: StepResult;
}

/** What the stored results of a step's attempts mean to the flow; `value` is the last one's, wherever it lies. */
export function settledStep(
  { compiled }: Blueprint,
  step: PlannedStep,
  task: StepTask,
  results: readonly [TaskResult, ...TaskResult[]],
  value: JsonValue,
): SettledStep {
  const result = results.at(-1) ?? results[0];
  const { completed_at, attempt } = result;
  const status = result.reason === 'cancelled' ? 'cancelled' : result.status;
  const entry = entryOf(step, { ...task, attempt }, { status, completed_at, results });
  if (!result.ok) return { entry, result: { status: 'blocked', value, completed_at } };
  const agent = compiled.agents[step.ref];
  const fold = agent === undefined || !keepsText(agent, task.context);
  return { entry, result: { status: 'passed', value, completed_at, fold } };
}

/** A step that could not be run, with the results of earlier attempts. */
export function failedStep(
  step: PlannedStep,
  task: StepTask,
  {
    message,
    completed_at = timestamp(),
    results = [],
  }: {
    readonly message: string;
    readonly completed_at?: string;
    readonly results?: readonly TaskResult[];
  },
): SettledStep {
  return {
    entry: entryOf(step, task, { status: 'failed', completed_at, results }),
    result: { status: 'failed', message, completed_at },
  };
}

/** What the attempts of a step used. */
export function spentIn(results: readonly TaskResult[]): Spent {
  return sumSpent(results.map(({ stats }) => spentBy(stats)));
}

function entryOf(
  { ref, position }: PlannedStep,
  { task_id, attempt }: StepTask,
  {
    results,
    ...end
  }: Pick<StepEntry, 'status' | 'completed_at'> & { readonly results: readonly TaskResult[] },
): StepEntry {
  const spent = spentIn(results);
  return {
    task_id,
    attempt,
    ref,
    position,
    ...end,
    ...(Object.keys(spent).length > 0 && { spent }),
  };
}
