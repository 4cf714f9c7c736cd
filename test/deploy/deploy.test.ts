/** `cdk bootstrap` and `cdk deploy` of stage dev, as far as the CloudFormation of moto goes, and what is there then. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { attemptKey } from '../../lib/store/keys.ts';
import { shell, taskOf } from '../support/attempts.ts';
import { container, podman } from '../support/containers.ts';
import { CREDENTIALS, type Deployment, deploy, REGION } from '../support/deployment.ts';
import { temporaryFolder } from '../support/ports.ts';
import { lambdaFunction } from '../support/runtime-api.ts';
import { parsed, resultOf } from '../support/spawn-image.ts';

/** Passed over by moto; what it refuses (the REST API) is left out by `-c parts=core`. */
const PASSED_OVER = [
  'AWS::CDK::Metadata',
  'AWS::CloudWatch::Alarm',
  'AWS::Lambda::EventInvokeConfig',
  'AWS::S3::BucketPolicy',
  'AWS::SQS::QueuePolicy',
];

const folder = temporaryFolder();
let aws: Deployment;
let bucket: string;

beforeAll(async () => {
  aws = await deploy(folder);
  bucket = await aws.idOf('StoreBucket');
}, 600_000);

afterAll(() => aws?.stop());

test('everything of the template is created but what moto passes over', async () => {
  expect(PASSED_OVER).toEqual(expect.arrayContaining([...(await aws.missing())]));
});

test('the bucket is encrypted', async () => {
  const { ServerSideEncryptionConfiguration } = await aws.s3.getBucketEncryption({ Bucket: bucket });
  expect(ServerSideEncryptionConfiguration?.Rules).toMatchObject([
    { ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } },
  ]);
});

test('the functions know the bucket, the worker and the state machine, each what it needs', async () => {
  const STORE_URL = `s3://${bucket}`;
  const INLINE_BLUEPRINTS = 'true';
  const SECRETS = '{}';
  const settings = {
    FunctionsWorker: { STORE_URL, INLINE_BLUEPRINTS, SECRETS },
    FunctionsStream: { STORE_URL, INLINE_BLUEPRINTS, SECRETS },
    FunctionsFront: {
      STORE_URL,
      INLINE_BLUEPRINTS,
      SECRETS,
      SPAWN_FUNCTION: await aws.idOf('FunctionsWorker'),
    },
    FunctionsValidate: { STORE_URL },
    FunctionsPlan: { STORE_URL },
    WorkflowRuns: { STORE_URL, INLINE_BLUEPRINTS, STATE_MACHINE_ARN: await aws.idOf('WorkflowMachine') },
    WorkflowCancelMarker: { STORE_URL },
  };
  const deployed = await Promise.all(
    Object.keys(settings).map(async (name) => {
      const { Environment } = await aws.lambda.getFunctionConfiguration({
        FunctionName: await aws.idOf(name),
      });
      return [name, Environment?.Variables];
    }),
  );
  expect(Object.fromEntries(deployed)).toEqual(settings);
});

test('each function has a role of its own that reaches the deployed bucket by prefixes', async () => {
  const role = await aws.idOf('FunctionsWorkerRole');
  const { Role } = await aws.lambda.getFunctionConfiguration({
    FunctionName: await aws.idOf('FunctionsWorker'),
  });
  expect(Role).toMatch(new RegExp(`:role/${role}$`));
  const puts = (await aws.statements(role)).filter(({ Action }) => JSON.stringify(Action).includes('s3:Put'));
  expect(puts.map(({ Effect, Resource }) => [Effect, Resource])).toEqual([
    ['Allow', `arn:aws:s3:::${bucket}/tasks/*`],
  ]);
});

test('the state machine calls the deployed functions under its own role', async () => {
  const machine = await aws.sfn.describeStateMachine({ stateMachineArn: await aws.idOf('WorkflowMachine') });
  expect(machine.roleArn).toMatch(new RegExp(`:role/${await aws.idOf('WorkflowMachineRole')}$`));
  for (const name of ['FunctionsPlan', 'FunctionsWorker'])
    expect(machine.definition).toContain(`:function:${await aws.idOf(name)}"`);
});

test('the worker is the image that was built and published, and stores its results in the bucket', async () => {
  const { Code, Configuration } = await aws.lambda.getFunction({
    FunctionName: await aws.idOf('FunctionsWorker'),
  });
  const image = Code?.ImageUri ?? '';
  await podman('image', 'exists', image);
  const env = {
    ...Configuration?.Environment?.Variables,
    AWS_ENDPOINT_URL_S3: aws.url,
    AWS_REGION: REGION,
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
  };
  const worker = lambdaFunction(container({ image, env }));
  try {
    const result = resultOf(await worker.invoke(taskOf(shell('echo deployed'), { task_id: 'first' })));
    expect(result).toMatchObject({ status: 'passed', value: { raw: 'deployed' } });
    const Key = attemptKey('first', 1, 'result.json');
    const { Body } = await aws.s3.getObject({ Bucket: bucket, Key });
    expect(parsed((await Body?.transformToString()) ?? null)).toEqual(result);
  } finally {
    await worker.stop();
  }
});

test('deploying again changes nothing', async () => {
  expect(await aws.cdk('deploy', '--require-approval', 'never')).toContain('stepspawn-dev (no changes)');
}, 280_000);
