/** Everything of one stage. */
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { StateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { Construct } from 'constructs';
import { Alarms } from './alarms.ts';
import { Api } from './api.ts';
import type { StageConfig } from './config.ts';
import { Functions } from './functions.ts';
import { Storage } from './storage.ts';
import { Workflow } from './workflow.ts';

export class StepspawnStack extends Stack {
  readonly store: Storage;
  readonly machine: StateMachine;

  constructor(scope: Construct, id: string, stage: StageConfig, props?: StackProps) {
    super(scope, id, props);
    this.store = new Storage(this, 'Store', stage);
    const { store } = this;
    const functions = new Functions(this, 'Functions', { stage, store });
    const workflow = new Workflow(this, 'Workflow', { stage, store, functions });
    this.machine = workflow.machine;
    const api = new Api(this, 'Api', { stage, functions, workflow });
    new Alarms(this, 'Alarms', { stage, functions, workflow, api });
    new CfnOutput(this, 'ApiUrl', { value: api.rest.url });
    new CfnOutput(this, 'StoreUrl', { value: store.url });
    new CfnOutput(this, 'WorkerName', { value: functions.worker.functionName });
    new CfnOutput(this, 'StateMachineArn', { value: workflow.machine.stateMachineArn });
  }
}
