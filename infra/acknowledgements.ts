/** Findings of cdk-nag that stand, each with its reason. */
import { Token, Validations } from 'aws-cdk-lib';
import type { CfnBucket } from 'aws-cdk-lib/aws-s3';
import type { CfnStateMachine } from 'aws-cdk-lib/aws-stepfunctions';
import type { StepspawnStack } from './stack.ts';

const PREFIX = 'a role reaches the objects below one prefix of the store, whose names are made at run time';

/** rule, or rule and finding: reason; for the whole stack */
const REASONS: Readonly<Record<string, string>> = {
  'AwsSolutions-S1':
    'the API logs who asked for what; a log of every read of the bucket costs more than the store itself',
  'AwsSolutions-SQS3': 'this queue is the dead-letter queue',
  'AwsSolutions-SF1':
    'errors are logged; the history of an execution and the store hold all else of it, without payloads in a log',
  'AwsSolutions-APIG3':
    'callers sign with IAM credentials and are throttled; a web ACL is the choice of who opens the API to others',
  'AwsSolutions-COG4': 'callers are programs of the same account: they sign with IAM credentials',
  'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs]':
    'API Gateway takes its logging role for a whole account, with the policy that AWS made for it',
  'AwsSolutions-IAM5[Resource::*]':
    'X-Ray, and the log delivery of Step Functions, have no resources to name',
};

/** Acknowledges them. */
export function acknowledge(stack: StepspawnStack): void {
  const validations = Validations.of(stack);
  for (const [id, reason] of Object.entries(REASONS)) validations.acknowledge({ id, reason });
  const bucketId = stack.getLogicalId(stack.store.bucket.node.defaultChild as CfnBucket);
  for (const below of ['blueprints/*', 'inputs/*', 'tasks/*', 'runs/*', 'runs/*/cancel.json'])
    validations.acknowledge({
      id: `AwsSolutions-IAM5[Resource::<${bucketId}.Arn>/${below}]`,
      reason: PREFIX,
    });
  for (const below of [':*', '/*:*'])
    validations.acknowledge({
      id: `AwsSolutions-IAM5[Resource::${executions(stack)}${below}]`,
      reason:
        'a distributed Map watches and stops its own child executions, whose names are made at run time',
    });
}

/** How cdk-nag writes the executions of the state machine. */
function executions(stack: StepspawnStack): string {
  const region = Token.isUnresolved(stack.region) ? '<AWS::Region>' : stack.region;
  const account = Token.isUnresolved(stack.account) ? '<AWS::AccountId>' : stack.account;
  const machine = stack.getLogicalId(stack.machine.node.defaultChild as CfnStateMachine);
  const name = JSON.stringify({ 'Fn::Select': [6, { 'Fn::Split': [':', { Ref: machine }] }] });
  return `arn:<AWS::Partition>:states:${region}:${account}:execution:${name}`;
}
