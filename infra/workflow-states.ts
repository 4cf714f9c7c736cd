/** The states of a run: plan -> map(spawn) -> plan. Values travel by key; what steps come to lies in the store. */
import { Aws, Duration } from 'aws-cdk-lib';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import {
  Choice,
  Condition,
  CustomState,
  DistributedMap,
  Fail,
  type IChainable,
  Map as InlineMap,
  JsonPath,
  Pass,
  Result,
  S3JsonItemReader,
  StateMachineType,
  Succeed,
  Wait,
  WaitTime,
} from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import type { StageConfig } from './config.ts';
import { STATE_MARGIN_SECS } from './limits.ts';
import { mostRetries, retryRules, SETTLING } from './retries.ts';

/** More steps at once than this are read from S3 by a distributed Map. */
export const INLINE_STEPS = 40;
const EVENTS = { allowed: 15_000, per_retry: 3, per_step: 12, per_hop: 20 };
/** Where a step came to nothing that is stored, the plan dispatches it again, but not at once. */
const PAUSE = WaitTime.duration(Duration.seconds(10));

export interface WorkflowParts {
  readonly stage: StageConfig;
  readonly worker: IFunction;
  readonly plan: IFunction;
  /** the longest that the plan function runs */
  readonly plan_secs: number;
}

/**
 * Input: `{run_id, execution}`, where the execution is named `<run_id>-<execution>`. `spent` counts hops and inline
 * steps; when it is used up, the next execution goes on.
 */
export function workflowStates(scope: Construct, parts: WorkflowParts): IChainable {
  const { stage, plan, plan_secs } = parts;
  const begin = new Pass(scope, 'Begin', {
    parameters: {
      run_id: JsonPath.stringAt('$.run_id'),
      execution: JsonPath.numberAt('$.execution'),
      spent: { units: 0 },
    },
  });
  const hop = invoke(scope, 'Plan', {
    target: plan,
    payload: { Payload: { 'run_id.$': '$.run_id' } },
    function_secs: plan_secs,
    timeout_secs: plan_secs + STATE_MARGIN_SECS,
    result: { ResultSelector: { 'answer.$': '$.Payload' }, ResultPath: '$.plan' },
  });
  const pause = new Wait(scope, 'Pause', { time: PAUSE }).next(hop);

  const steps = new InlineMap(scope, 'Steps', {
    itemsPath: '$.plan.answer.steps',
    maxConcurrency: Math.min(stage.concurrency ?? INLINE_STEPS, INLINE_STEPS),
    resultPath: JsonPath.DISCARD,
  });
  steps.itemProcessor(step(scope, '', parts));
  const wide = new DistributedMap(scope, 'WideSteps', {
    itemReader: new S3JsonItemReader({
      bucketNamePath: JsonPath.stringAt('$.plan.answer.wide.bucket'),
      key: JsonPath.stringAt('$.plan.answer.wide.key'),
    }),
    mapExecutionType: StateMachineType.STANDARD,
    maxConcurrency: stage.concurrency ?? INLINE_STEPS,
    resultPath: JsonPath.DISCARD,
  });
  wide.itemProcessor(step(scope, 'Wide', parts));
  for (const map of [steps, wide])
    map.addCatch(pause, { errors: ['States.ALL'], resultPath: JsonPath.DISCARD });

  const dispatch = new Choice(scope, 'Dispatch')
    .when(
      Condition.numberGreaterThanEquals('$.spent.units', unitsPerExecution(parts)),
      handOver(scope, new Succeed(scope, 'HandedOver')),
    )
    .when(
      Condition.isPresent('$.plan.answer.wide'),
      count(scope, 'CountHop', 'States.MathAdd($.spent.units, 1)').next(wide).next(hop),
    )
    .otherwise(
      count(
        scope,
        'CountSteps',
        'States.MathAdd($.spent.units, States.MathAdd(States.ArrayLength($.plan.answer.steps), 1))',
      )
        .next(steps)
        .next(hop),
    );
  const status = new Choice(scope, 'Status')
    .when(Condition.stringEquals('$.plan.answer.status', 'dispatch'), dispatch)
    .when(Condition.stringEquals('$.plan.answer.status', 'done'), new Succeed(scope, 'Done'))
    .when(Condition.stringEquals('$.plan.answer.status', 'cancelled'), end(scope, 'Cancelled'))
    .otherwise(end(scope, 'Failed'));
  return begin.next(hop).next(status);
}

/** One step: the worker, its retries, and an end that never fails the Map, whose output is empty. */
function step(scope: Construct, prefix: string, { stage, worker }: WorkflowParts): IChainable {
  const settled = new Pass(scope, `${prefix}Settled`, { result: Result.fromObject({}) });
  const unsettled = new Wait(scope, `${prefix}Unsettled`, { time: PAUSE }).next(settled);
  return invoke(scope, `${prefix}Spawn`, {
    target: worker,
    payload: {
      Payload: { 'step.$': '$' },
      ...(stage.tenant_isolation && { 'TenantId.$': '$.context.run_id' }),
    },
    function_secs: stage.function_timeout_secs,
    timeout_secs: stage.state_timeout_secs,
    result: { ResultSelector: {} },
  })
    .addCatch(settled, { errors: SETTLING, resultPath: JsonPath.DISCARD })
    .addCatch(unsettled, { errors: ['States.ALL'], resultPath: JsonPath.DISCARD });
}

/** A call of the newest version of a function, which is all that the role may call. */
function invoke(
  scope: Construct,
  id: string,
  task: {
    readonly target: IFunction;
    readonly payload: Readonly<Record<string, unknown>>;
    readonly function_secs: number;
    readonly timeout_secs: number;
    readonly result: Readonly<Record<string, unknown>>;
  },
): CustomState {
  const state = new CustomState(scope, id, {
    stateJson: {
      Type: 'Task',
      Resource: `arn:${Aws.PARTITION}:states:::lambda:invoke`,
      Parameters: { FunctionName: task.target.functionArn, ...task.payload },
      TimeoutSeconds: task.timeout_secs,
      ...task.result,
    },
  });
  for (const rule of retryRules(task.function_secs)) state.addRetry(rule);
  return state;
}

function count(scope: Construct, id: string, units: string): Pass {
  return new Pass(scope, id, { parameters: { 'units.$': units }, resultPath: '$.spent' });
}

/** Starts the execution that goes on with the run; one that was started already is left alone. */
function handOver(scope: Construct, next: IChainable): CustomState {
  const execution = 'States.MathAdd($.execution, 1)';
  const state = new CustomState(scope, 'HandOver', {
    stateJson: {
      Type: 'Task',
      Resource: `arn:${Aws.PARTITION}:states:::states:startExecution`,
      Parameters: {
        'StateMachineArn.$': '$$.StateMachine.Id',
        'Name.$': `States.Format('{}-{}', $.run_id, ${execution})`,
        Input: {
          'run_id.$': '$.run_id',
          'execution.$': execution,
          'AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID.$': '$$.Execution.Id',
        },
      },
      TimeoutSeconds: 60,
      ResultPath: null,
    },
  });
  state.addCatch(next, {
    errors: ['StepFunctions.ExecutionAlreadyExistsException'],
    resultPath: JsonPath.DISCARD,
  });
  state.addRetry({
    errors: ['States.TaskFailed', 'States.Timeout'],
    interval: Duration.seconds(2),
    backoffRate: 2,
    maxAttempts: 5,
  });
  state.next(next);
  return state;
}

function end(scope: Construct, outcome: 'Failed' | 'Cancelled'): Fail {
  const text = `States.Format('run {} ${outcome === 'Failed' ? 'failed' : 'was cancelled'}; GET /v1/runs/{} tells more', $.run_id, $.run_id)`;
  return new Fail(scope, outcome, { error: `Run${outcome}`, causePath: text });
}

/**
 * Hops and inline steps that one execution may take: even if each were retried as often as its rules allow, its
 * history stays under 15,000 events with a last hop of as many inline steps as there may be.
 */
function unitsPerExecution({ stage, plan_secs }: WorkflowParts): number {
  const perStep = EVENTS.per_step + EVENTS.per_retry * mostRetries(retryRules(stage.function_timeout_secs));
  const perHop = EVENTS.per_hop + EVENTS.per_retry * mostRetries(retryRules(plan_secs));
  return Math.max(1, Math.floor(EVENTS.allowed / Math.max(perStep, perHop)) - INLINE_STEPS - 1);
}
