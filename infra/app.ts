/**
 * The CDK app: `cdk synth|deploy -c stage=dev|prod`, with `-c parts=core` without the REST API, with `-c nag=1` checked by
 * cdk-nag. cdk.json says where stages differ from their defaults, and has the bundles built first.
 */
import { App, Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { acknowledge } from './acknowledgements.ts';
import { readStage } from './config.ts';
import { keepParts } from './parts.ts';
import { StepspawnStack } from './stack.ts';

const app = new App();
const context = (key: string): unknown => app.node.tryGetContext(key);
const name = context('stage');
const stages = (context('stages') ?? {}) as Readonly<Record<string, object>>;
const nodeImage = context('nodeImage');
const stage = readStage(name, {
  ...stages[String(name)],
  ...(nodeImage !== undefined && { node_image: nodeImage }),
});

const stack = new StepspawnStack(app, `stepspawn-${stage.stage}`, stage, {
  env: {
    account: stage.account ?? process.env.CDK_DEFAULT_ACCOUNT,
    region: stage.region ?? process.env.CDK_DEFAULT_REGION,
  },
  terminationProtection: stage.retain_data,
});
keepParts(stack, context('parts') ?? 'all');
if (context('nag') !== undefined) {
  acknowledge(stack);
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
}
app.synth();
