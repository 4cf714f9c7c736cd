/** A step for state machines of one's own: one attempt of one agent, as a Task state that can be chained. */
import { Duration, Token } from 'aws-cdk-lib';
import { type IFunction, Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { JsonPath, TaskInput, Timeout } from 'aws-cdk-lib/aws-stepfunctions';
import { LambdaInvoke } from 'aws-cdk-lib/aws-stepfunctions-tasks';
import type { Construct } from 'constructs';
import { StepspawnError } from '../lib/errors.ts';
import {
  CHILD_TO_FUNCTION_SECS,
  FUNCTION_TO_STATE_SECS,
  type Limit,
  LONGEST_FUNCTION_SECS,
  nestingFault,
  STATE_MARGIN_SECS,
} from './limits.ts';
import { DUE_ATTEMPTS_ALONE, retryRules } from './retries.ts';

export interface SpawnStepProps {
  /** The worker function of a stage: `Function.fromFunctionName` with the output `WorkerName`. */
  readonly worker: IFunction;
  /** Digest of a registered Blueprint, `sha256:<64 hex>`, or a path to one in the state's input. */
  readonly blueprint: string;
  /** Agent of the Blueprint. */
  readonly agent: string;
  /**
   * The step's text or JSON.
   * @default the whole input of the state
   */
  readonly input?: TaskInput;
  /**
   * Names the work: the same id is never done twice. Within a Map, make it of something of the item's.
   * @default `<execution name>-<id>`
   */
  readonly taskId?: string;
  /**
   * Raise it to do the work of a task id anew; retries of the state keep it.
   * @default 1
   */
  readonly attempt?: number;
  /**
   * How long the child may take.
   * @default what its template says, within the function's time
   */
  readonly childTimeout?: Duration;
  /**
   * The worker's own time.
   * @default known for a function of the same app, else 900 s
   */
  readonly functionTimeout?: Duration;
  /**
   * How long the state waits for the worker; each retry waits as long.
   * @default functionTimeout + 30 s
   */
  readonly taskTimeout?: Duration;
  /**
   * Where the result goes in the state's output.
   * @default it becomes the output
   */
  readonly resultPath?: string;
}

/**
 * Invokes the worker and retries what a retry helps with, a template's own rule for new attempts included; the state's result is the attempt's result, passed or not.
 * Errors to catch are those of docs/errors.md. Throws InvalidTask when a limit does not contain the one below it, or
 * when the default task id would be too long.
 */
export class SpawnStep extends LambdaInvoke {
  constructor(scope: Construct, id: string, props: SpawnStepProps) {
    const { worker, blueprint, agent, attempt = 1, childTimeout } = props;
    const functionTimeout = props.functionTimeout ?? ownTimeout(worker);
    const taskTimeout = props.taskTimeout ?? functionTimeout.plus(Duration.seconds(STATE_MARGIN_SECS));
    checkNesting(id, childTimeout, functionTimeout, taskTimeout);
    const input = props.input ?? TaskInput.fromJsonPathAt('$');
    super(scope, id, {
      lambdaFunction: worker,
      payloadResponseOnly: true,
      payload: TaskInput.fromObject({
        task_id: props.taskId ?? defaultTaskId(id),
        attempt,
        agent,
        blueprint: { digest: blueprint },
        in: input.value,
        follow_retries: true,
        ...(childTimeout && { timeout_secs: childTimeout.toSeconds() }),
      }),
      taskTimeout: Timeout.duration(taskTimeout),
      retryOnServiceExceptions: false,
      ...(props.resultPath !== undefined && { resultPath: props.resultPath }),
    });
    for (const rule of retryRules(functionTimeout.toSeconds(), DUE_ATTEMPTS_ALONE)) this.addRetry(rule);
  }
}

function ownTimeout(worker: IFunction): Duration {
  const known = worker instanceof LambdaFunction ? worker.timeout : undefined;
  return known ?? Duration.seconds(LONGEST_FUNCTION_SECS);
}

function checkNesting(id: string, child: Duration | undefined, fn: Duration, task: Duration): void {
  const limit = (name: string, time: Duration): Limit => ({ name, secs: time.toSeconds() });
  const inner = limit('functionTimeout', fn);
  const faults = [
    child && nestingFault(limit('childTimeout', child), inner, CHILD_TO_FUNCTION_SECS),
    nestingFault(inner, limit('taskTimeout', task), FUNCTION_TO_STATE_SECS),
  ].filter((fault) => fault != null);
  if (faults.length > 0) throw new StepspawnError('InvalidTask', `step '${id}': ${faults.join('; ')}`);
}

/** An execution's name has up to 80 characters, a task id up to 128. */
const MAX_ID = 128 - 80 - 1;

function defaultTaskId(id: string): string {
  const suffix = id.replaceAll(/[^A-Za-z0-9._-]/g, '-');
  if (Token.isUnresolved(id) || suffix.length > MAX_ID)
    throw new StepspawnError(
      'InvalidTask',
      `step '${id}': its id is longer than ${MAX_ID} characters; give taskId`,
    );
  return JsonPath.format(`{}-${suffix}`, JsonPath.stringAt('$$.Execution.Name'));
}
