/** The workflow: the state machine, the function that starts runs and answers for them, the mark of stopped ones. */
import { Duration } from 'aws-cdk-lib';
import { Rule } from 'aws-cdk-lib/aws-events';
import { LambdaFunction as LambdaTarget } from 'aws-cdk-lib/aws-events-targets';
import { Policy } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { DefinitionBody, LogLevel, StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import { Construct } from 'constructs';
import type { StageConfig } from './config.ts';
import { bundledFunction, type Functions, PLAN_SECS } from './functions.ts';
import { logGroup } from './retention.ts';
import type { Storage } from './storage.ts';
import { workflowStates } from './workflow-states.ts';

export class Workflow extends Construct {
  readonly machine: StateMachine;
  /** starts runs and answers for them */
  readonly runs: LambdaFunction;
  /** marks the runs of executions that were stopped */
  readonly cancelMarker: LambdaFunction;

  constructor(
    scope: Construct,
    id: string,
    parts: { readonly stage: StageConfig; readonly store: Storage; readonly functions: Functions },
  ) {
    super(scope, id);
    const { stage, store, functions } = parts;
    const { worker, plan, failures } = functions;
    this.machine = new StateMachine(this, 'Machine', {
      definitionBody: DefinitionBody.fromChainable(
        workflowStates(this, { stage, worker, plan, plan_secs: PLAN_SECS }),
      ),
      timeout: Duration.seconds(stage.execution_timeout_secs),
      tracingEnabled: true,
      logs: {
        destination: logGroup(this, 'Logs', stage),
        level: LogLevel.ERROR,
        includeExecutionData: false,
      },
    });
    worker.grantInvokeLatestVersion(this.machine);
    plan.grantInvokeLatestVersion(this.machine);
    store.grantRead(this.machine, 'runs');
    // apart from the role's own policy, which the machine waits for
    const goOn = new Policy(this, 'GoOn', { roles: [this.machine.role] });
    this.machine.grantStartExecution(goOn);

    this.runs = bundledFunction(this, 'Runs', {
      stage,
      bundle: 'plan',
      settings: {
        store_url: store.url,
        inline_blueprints: stage.inline_blueprints,
        state_machine_arn: this.machine.stateMachineArn,
      },
      memory_mb: 1024,
    });
    store.grantRead(this.runs, 'blueprints', 'runs');
    store.grantWrite(this.runs, 'blueprints', 'runs');
    this.machine.grantStartExecution(this.runs);
    this.machine.grantExecution(this.runs, 'states:DescribeExecution');

    this.cancelMarker = bundledFunction(this, 'CancelMarker', {
      stage,
      bundle: 'cancel-marker',
      settings: { store_url: store.url },
      memory_mb: 512,
      timeout_secs: 120,
      failures,
    });
    store.grantCancelRuns(this.cancelMarker);
    new Rule(this, 'Stopped', {
      eventPattern: {
        source: ['aws.states'],
        detailType: ['Step Functions Execution Status Change'],
        detail: {
          stateMachineArn: [this.machine.stateMachineArn],
          status: ['ABORTED', 'TIMED_OUT'],
        },
      },
      targets: [new LambdaTarget(this.cancelMarker, { deadLetterQueue: failures })],
    });
  }
}
