/** What becomes of data when a stage is removed, and how long logs are kept. */
import { RemovalPolicy } from 'aws-cdk-lib';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import type { StageConfig } from './config.ts';

export function removalPolicy(stage: StageConfig): RemovalPolicy {
  return stage.retain_data ? RemovalPolicy.RETAIN : RemovalPolicy.DESTROY;
}

export function logGroup(scope: Construct, id: string, stage: StageConfig): LogGroup {
  return new LogGroup(scope, id, {
    retention: stage.log_retention_days,
    removalPolicy: removalPolicy(stage),
  });
}
