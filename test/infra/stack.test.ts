/** What the app synthesises, per stage: the templates of a fresh clone, read as CloudFormation will read them. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import validateDefinition from 'asl-validator';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { beforeAll, describe, expect, test } from 'vitest';
import { MAX_BODY_BYTES } from '../../functions/http.ts';
import { ERRORS } from '../../lib/errors.ts';
import type { JsonObject } from '../../lib/json.ts';
import { temporaryFolder } from '../support/ports.ts';
import {
  type Clone,
  cloneProject,
  definitionOf,
  type RetryRule,
  readTemplate,
  retriedErrors,
  run,
  stateOf,
  text,
} from './synth.ts';

const STAGES = ['dev', 'prod'] as const;
const OWN = {
  account: '123456789012',
  region: 'eu-central-1',
  architecture: 'arm64',
  memory_mb: 512,
  ephemeral_storage_mb: 4096,
  child_timeout_secs: 60,
  concurrency: 7,
  secrets: { token: 'secretsmanager:team/token', key: 'ssm:/team/key' },
  tenant_isolation: true,
  api_auth: 'none',
  alarm_email: 'ops@example.com',
  apt_packages: ['jq', 'pandoc'],
  npm_packages: ['some-cli@1.2.3'],
} satisfies JsonObject;

const folder = temporaryFolder();
const templates = {} as Record<(typeof STAGES)[number] | 'own', Template>;
let clone: Clone;
let nagOnOpenApi = '';

beforeAll(async () => {
  clone = cloneProject(join(folder, 'clone'));
  for (const stage of STAGES) {
    const out = join(folder, stage);
    await clone.synth(out, '-c', `stage=${stage}`, ...(stage === 'prod' ? ['-c', 'nag=1'] : []));
    templates[stage] = Template.fromJSON(readTemplate(out, `stepspawn-${stage}`));
  }
  clone.configure({ dev: OWN });
  const out = join(folder, 'own');
  nagOnOpenApi = await clone.synth(out, '-c', 'stage=dev', '-c', 'nag=1').catch((error) => error.message);
  templates.own = Template.fromJSON(readTemplate(out, 'stepspawn-dev'));
}, 240_000);

/** The properties of the resources of a type, by logical id. */
function all(template: Template, type: string): [string, JsonObject][] {
  const found = template.findResources(type) as Record<string, { Properties?: JsonObject }>;
  return Object.entries(found).map(([id, { Properties = {} }]) => [id, Properties]);
}

/** `role: [action on resource]` of every role; what only AWS knows is written `id.attribute`. */
function grants(template: Template): Record<string, string[]> {
  const roles: Record<string, string[]> = {};
  for (const [, policy] of all(template, 'AWS::IAM::Policy')) {
    const { Statement } = policy.PolicyDocument as { Statement: JsonObject[] };
    const lines = Statement.flatMap(({ Action, Resource }) =>
      [Action]
        .flat()
        .flatMap((action) => [Resource].flat().map((on) => `${action} on ${short(text(on as string))}`)),
    );
    for (const role of policy.Roles as { Ref: string }[]) {
      const name = role.Ref.replace(/Role[0-9A-F]{8}$/, '');
      roles[name] = [...(roles[name] ?? []), ...lines].sort();
    }
  }
  return roles;
}

/** Logical ids without their hash: `StoreBucket.Arn/tasks/*`. */
function short(name: string): string {
  return name.replaceAll(/([A-Za-z]+?)[0-9A-F]{8}\b/g, '$1');
}

const LOGS = (id: string) => [`logs:CreateLogStream on ${id}Logs.Arn`, `logs:PutLogEvents on ${id}Logs.Arn`];
const XRAY = ['xray:PutTelemetryRecords on *', 'xray:PutTraceSegments on *'];
const reads = (...prefixes: string[]) => [
  ...prefixes.map((prefix) => `s3:GetObject on StoreBucket.Arn/${prefix}/*`),
  's3:ListBucket on StoreBucket.Arn',
];
const writes = (...prefixes: string[]) =>
  prefixes.flatMap((prefix) => [
    `s3:AbortMultipartUpload on StoreBucket.Arn/${prefix}/*`,
    `s3:PutObject on StoreBucket.Arn/${prefix}/*`,
  ]);
const invokes = (id: string) => [
  `lambda:InvokeFunction on ${id}.Arn`,
  `lambda:InvokeFunction on ${id}.Arn:$LATEST`,
];
const LETTERS = ['GetQueueAttributes', 'GetQueueUrl', 'SendMessage'].map(
  (action) => `sqs:${action} on FunctionsFailures.Arn`,
);

/** AWS names executions below their machine */
const EXECUTIONS = expect.stringMatching(
  /^states:DescribeExecution on arn:aws:states:[^ ]*:execution:.*WorkflowMachine.*:\*$/,
);
const RUNS_ATTEMPTS = [...reads('blueprints', 'inputs', 'tasks', 'runs'), ...writes('tasks'), ...LETTERS];

/** An expectation sorts as the text that it stands for. */
const byText = (a: string, b: string): number => {
  const text = (line: unknown): string => (typeof line === 'string' ? line : 'states:D');
  return text(a) < text(b) ? -1 : 1;
};

describe.each(STAGES)('stage %s', (stage) => {
  test('every role has exactly the grants of its work', () => {
    const { WorkflowMachine, ...functions } = grants(templates[stage]);
    expect(functions).toEqual(
      Object.fromEntries(
        Object.entries({
          FunctionsWorker: RUNS_ATTEMPTS,
          FunctionsStream: RUNS_ATTEMPTS,
          FunctionsFront: [
            ...reads('blueprints', 'inputs', 'tasks', 'runs'),
            ...writes('tasks', 'inputs'),
            ...invokes('FunctionsWorker'),
          ],
          FunctionsValidate: writes('blueprints'),
          FunctionsPlan: [...reads('blueprints', 'tasks', 'runs'), ...writes('runs')],
          WorkflowRuns: [
            ...reads('blueprints', 'runs'),
            ...writes('blueprints', 'runs'),
            'states:StartExecution on WorkflowMachine',
            EXECUTIONS,
          ],
          WorkflowCancelMarker: ['s3:PutObject on StoreBucket.Arn/runs/*/cancel.json', ...LETTERS],
        }).map(([id, own]) => [id, [...own, ...LOGS(id), ...XRAY].sort(byText)]),
      ),
    );
    const onEverything = /^(logs|xray):\w+ on \*$/;
    expect(
      WorkflowMachine?.filter((line) => !onEverything.test(line) && !/states:\w+ on arn:/.test(line)),
    ).toEqual(
      [
        ...reads('runs'),
        ...invokes('FunctionsPlan'),
        ...invokes('FunctionsWorker'),
        'states:StartExecution on WorkflowMachine',
        'states:StartExecution on WorkflowMachine',
      ].sort(),
    );
  });

  test('no policy names all actions, or all resources where AWS has resources to name', () => {
    const lines = Object.values(grants(templates[stage])).flat();
    expect(lines.filter((line) => /^\S*\*\S* on/.test(line))).toEqual([]);
    expect(lines.filter((line) => line.endsWith(' on *') && !/^(xray|logs):/.test(line))).toEqual([]);
  });

  test('the bucket is encrypted, versioned, private, reached over TLS alone, and forgets by prefix', () => {
    const template = templates[stage];
    const days = { dev: 14, prod: 365 }[stage];
    const passing = ['inputs/', 'tasks/', 'runs/'].map((Prefix) =>
      Match.objectLike({ Prefix, ExpirationInDays: days, Status: 'Enabled' }),
    );
    const policy = { dev: 'Delete', prod: 'Retain' }[stage];
    template.hasResource('AWS::S3::Bucket', {
      DeletionPolicy: policy,
      UpdateReplacePolicy: policy,
      Properties: {
        BucketEncryption: Match.anyValue(),
        VersioningConfiguration: { Status: 'Enabled' },
        PublicAccessBlockConfiguration: {
          BlockPublicAcls: true,
          BlockPublicPolicy: true,
          IgnorePublicAcls: true,
          RestrictPublicBuckets: true,
        },
        OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
        LifecycleConfiguration: {
          Rules: [
            ...passing,
            Match.objectLike({ AbortIncompleteMultipartUpload: { DaysAfterInitiation: 1 } }),
            Match.objectLike({ ExpiredObjectDeleteMarker: true }),
          ],
        },
      },
    });
    template.hasResourceProperties('AWS::S3::BucketPolicy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({ Effect: 'Deny', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }),
          Match.objectLike({ Effect: 'Deny', Condition: { NumericLessThan: { 's3:TlsVersion': 1.2 } } }),
        ]),
      },
    });
  });

  test('every function is traced, logs for a while, and knows only names', () => {
    const functions = all(templates[stage], 'AWS::Lambda::Function');
    const found = Object.fromEntries(
      functions.map(([id, given]) => {
        const { Variables } = given.Environment as { Variables: JsonObject };
        return [short(id), Object.keys(Variables).sort()];
      }),
    );
    expect(found).toEqual({
      FunctionsWorker: ['INLINE_BLUEPRINTS', 'SECRETS', 'STORE_URL'],
      FunctionsStream: ['INLINE_BLUEPRINTS', 'SECRETS', 'STORE_URL'],
      FunctionsFront: ['INLINE_BLUEPRINTS', 'SECRETS', 'SPAWN_FUNCTION', 'STORE_URL'],
      FunctionsValidate: ['STORE_URL'],
      FunctionsPlan: ['STORE_URL'],
      WorkflowRuns: ['INLINE_BLUEPRINTS', 'STATE_MACHINE_ARN', 'STORE_URL'],
      WorkflowCancelMarker: ['STORE_URL'],
    });
    for (const [, given] of functions) {
      expect(given.TracingConfig).toEqual({ Mode: 'Active' });
      expect(given.LoggingConfig).toEqual({ LogGroup: { Ref: expect.any(String) } });
    }
    const inline = functions.map(
      ([, { Environment }]) => (Environment as { Variables: JsonObject }).Variables.INLINE_BLUEPRINTS,
    );
    expect(new Set(inline)).toEqual(new Set([undefined, stage === 'dev' ? 'true' : 'false']));
    for (const [, { RetentionInDays }] of all(templates[stage], 'AWS::Logs::LogGroup'))
      expect(RetentionInDays).toBe({ dev: 14, prod: 180 }[stage]);
  });

  test('the worker is an image with its limits, and its lost events go to a queue', () => {
    const template = templates[stage];
    template.hasResourceProperties('AWS::Lambda::Function', {
      PackageType: 'Image',
      Architectures: ['x86_64'],
      MemorySize: 2048,
      EphemeralStorage: { Size: 2048 },
      Timeout: 885,
      ReservedConcurrentExecutions: stage === 'prod' ? 100 : Match.absent(),
    });
    template.hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
      FunctionName: { Ref: Match.stringLikeRegexp('^FunctionsWorker') },
      MaximumRetryAttempts: 2,
      DestinationConfig: { OnFailure: { Destination: Match.anyValue() } },
    });
  });

  test('the API takes signed requests only, checks, throttles, logs them, and has no CORS', () => {
    const template = templates[stage];
    const methods = all(template, 'AWS::ApiGateway::Method');
    const paths = new Map(all(template, 'AWS::ApiGateway::Resource').map(([id, given]) => [id, given]));
    const pathOf = (id: string): string => {
      const resource = paths.get(id);
      if (!resource) return '';
      return `${pathOf((resource.ParentId as { Ref?: string }).Ref ?? '')}/${resource.PathPart}`;
    };
    const routes = methods.map(([, given]) => {
      const { Uri } = given.Integration as JsonObject;
      const [target] = /(Functions|Workflow)[A-Za-z]+(?=[0-9A-F]{8})/.exec(JSON.stringify(Uri)) ?? [];
      const path = pathOf((given.ResourceId as { Ref: string }).Ref);
      return `${given.HttpMethod} ${path} ${given.AuthorizationType} ${target}`;
    });
    expect(routes.sort()).toEqual([
      'GET /v1/runs/{run_id} AWS_IAM WorkflowRuns',
      'GET /v1/tasks/{task_id}/{attempt} AWS_IAM FunctionsFront',
      'POST /v1/blueprints AWS_IAM FunctionsValidate',
      'POST /v1/runs AWS_IAM WorkflowRuns',
      'POST /v1/runs/{run_id}/cancel AWS_IAM WorkflowRuns',
      'POST /v1/spawn AWS_IAM FunctionsFront',
      'POST /v1/spawn/stream AWS_IAM FunctionsStream',
      'POST /v1/tasks/{task_id}/{attempt}/cancel AWS_IAM FunctionsFront',
      'POST /v1/validate AWS_IAM FunctionsValidate',
    ]);
    for (const [, given] of methods) expect(given.RequestValidatorId).toEqual({ Ref: expect.any(String) });
    expect(methods.filter(([, { RequestModels }]) => RequestModels !== undefined)).toHaveLength(5);
    const streamed = methods
      .map(([, { Integration }]) => Integration as JsonObject)
      .filter(({ ResponseTransferMode }) => ResponseTransferMode === 'STREAM');
    expect(streamed).toMatchObject([{ TimeoutInMillis: 900_000 }]);
    expect(JSON.stringify(streamed)).toContain('/response-streaming-invocations');
    template.hasResourceProperties('AWS::ApiGateway::RestApi', {
      EndpointConfiguration: { Types: ['REGIONAL'] },
    });
    template.hasResourceProperties('AWS::ApiGateway::Stage', {
      StageName: stage,
      TracingEnabled: true,
      AccessLogSetting: { DestinationArn: Match.anyValue(), Format: Match.stringLikeRegexp('request_id') },
      MethodSettings: [
        Match.objectLike({ ThrottlingRateLimit: 50, ThrottlingBurstLimit: 100, DataTraceEnabled: false }),
      ],
    });
  });

  test('the gateway answers in the shape of our errors', () => {
    const answers = all(templates[stage], 'AWS::ApiGateway::GatewayResponse').map(
      ([, { ResponseType, StatusCode, ResponseTemplates }]) => {
        const body = JSON.parse(String((ResponseTemplates as JsonObject)['application/json']));
        expect(body).toEqual({
          error: { code: expect.any(String), message: expect.any(String), request_id: '$context.requestId' },
        });
        return [ResponseType, StatusCode, body.error.code];
      },
    );
    expect(answers.sort()).toEqual([
      ['ACCESS_DENIED', '403', 'Forbidden'],
      ['BAD_REQUEST_BODY', '400', 'InvalidTask'],
      ['BAD_REQUEST_PARAMETERS', '400', 'InvalidTask'],
      ['DEFAULT_4XX', undefined, 'InvalidTask'],
      ['DEFAULT_5XX', undefined, 'InternalError'],
      ['EXPIRED_TOKEN', '403', 'Forbidden'],
      ['INVALID_SIGNATURE', '403', 'Forbidden'],
      ['MISSING_AUTHENTICATION_TOKEN', '404', 'NotFound'],
      ['REQUEST_TOO_LARGE', '413', 'RequestTooLarge'],
      ['RESOURCE_NOT_FOUND', '404', 'NotFound'],
      ['THROTTLED', '429', 'TooManyRequests'],
      ['UNAUTHORIZED', '403', 'Forbidden'],
      ['UNSUPPORTED_MEDIA_TYPE', '415', 'UnsupportedMediaType'],
    ]);
    templates[stage].hasResourceProperties('AWS::ApiGateway::GatewayResponse', {
      ResponseType: 'REQUEST_TOO_LARGE',
      ResponseTemplates: { 'application/json': Match.stringLikeRegexp(`${MAX_BODY_BYTES} bytes`) },
    });
  });

  test('an execution that is stopped or runs out of time marks its run', () => {
    templates[stage].hasResourceProperties('AWS::Events::Rule', {
      EventPattern: {
        source: ['aws.states'],
        'detail-type': ['Step Functions Execution Status Change'],
        detail: {
          stateMachineArn: [{ Ref: Match.stringLikeRegexp('^WorkflowMachine') }],
          status: ['ABORTED', 'TIMED_OUT'],
        },
      },
      Targets: [
        Match.objectLike({
          Arn: { 'Fn::GetAtt': [Match.stringLikeRegexp('^WorkflowCancelMarker'), 'Arn'] },
          DeadLetterConfig: Match.anyValue(),
        }),
      ],
    });
  });

  test('the definition of the state machine is valid', () => {
    const definition = definitionOf(templates[stage].toJSON());
    const checks = { checkPaths: true, checkArn: true };
    expect(validateDefinition(definition, checks).errors).toEqual([]);
    const broken = { ...definition, StartAt: 'Nowhere' };
    expect(validateDefinition(broken, checks).isValid).toBe(false);
  });

  test('no physical names, so that stages and accounts do not collide', () => {
    const names = ['FunctionName', 'BucketName', 'RoleName', 'QueueName', 'StateMachineName', 'LogGroupName'];
    const resources = Object.values(templates[stage].toJSON().Resources as JsonObject) as JsonObject[];
    const named = resources.filter(
      ({ Type, Properties }) =>
        !['AWS::Lambda::Permission', 'AWS::Lambda::EventInvokeConfig'].includes(String(Type)) &&
        names.some((name) => Object.hasOwn((Properties ?? {}) as JsonObject, name)),
    );
    expect(named).toEqual([]);
  });
});

describe('a stage of its own', () => {
  test('reaches the worker, the image, the secrets and the alarms', () => {
    const template = templates.own;
    template.hasResourceProperties('AWS::Lambda::Function', {
      PackageType: 'Image',
      Architectures: ['arm64'],
      MemorySize: 512,
      EphemeralStorage: { Size: 4096 },
      Timeout: 75,
      ReservedConcurrentExecutions: 7,
      TenancyConfig: { TenantIsolationMode: 'PER_TENANT' },
      Environment: { Variables: Match.objectLike({ SECRETS: JSON.stringify(OWN.secrets) }) },
    });
    const worker = grants(template).FunctionsWorker?.filter((line) => /^(secretsmanager|ssm):/.test(line));
    expect(worker?.every((line) => /team\/(token|key)/.test(line))).toBe(true);
    expect(worker?.some((line) => line.startsWith('secretsmanager:GetSecretValue'))).toBe(true);
    expect(worker?.some((line) => line.startsWith('ssm:GetParameter '))).toBe(true);
    template.hasResourceProperties('AWS::SNS::Subscription', {
      Protocol: 'email',
      Endpoint: OWN.alarm_email,
    });
    template.allResourcesProperties('AWS::CloudWatch::Alarm', { AlarmActions: [{ Ref: Match.anyValue() }] });
    const assets = JSON.parse(readFileSync(join(folder, 'own', 'stepspawn-dev.assets.json'), 'utf8'));
    const [image] = Object.values(assets.dockerImages) as { source: JsonObject }[];
    expect(image?.source).toMatchObject({
      dockerFile: 'image/Dockerfile',
      platform: 'linux/arm64',
      dockerBuildArgs: {
        NODE_IMAGE: 'node:24-trixie-slim',
        APT_PACKAGES: 'jq pandoc',
        NPM_PACKAGES: 'some-cli@1.2.3',
      },
    });
    const context = join(folder, 'own', String(image?.source.directory));
    expect(readdirSync(context).sort()).toEqual(['.dockerignore', 'dist', 'image', 'launcher']);
    expect(existsSync(join(context, 'image/Dockerfile'))).toBe(true);
  });

  test('its steps run at most as many at once as the worker may, each run in environments of its own', () => {
    const definition = definitionOf(templates.own.toJSON());
    expect(stateOf(definition, 'Steps').MaxConcurrency).toBe(7);
    expect(stateOf(definition, 'Steps/Spawn').Parameters).toMatchObject({
      Payload: { 'step.$': '$' },
      'TenantId.$': '$.context.run_id',
    });
  });

  test('cdk-nag finds that its API is open to all, and nothing else', () => {
    expect(nagOnOpenApi).toContain('The API does not implement authorization');
    const rules = nagOnOpenApi.match(/AwsSolutions-[A-Z]+\d+/g);
    expect(new Set(rules)).toEqual(new Set(['AwsSolutions-APIG4']));
  });
});

test('a wrong key of a stage fails the synth by name', async () => {
  clone.configure({ dev: { memory_mb: 64 } });
  await expect(clone.synth(join(folder, 'refused'), '-c', 'stage=dev')).rejects.toThrow(
    /stage 'dev': memory_mb=64/,
  );
});

describe('the state machine', () => {
  const definition = () => definitionOf(templates.prod.toJSON());
  const state = (path: string) => stateOf(definition(), path);

  test('every task has a time-out, and so has the whole', () => {
    const { States, TimeoutSeconds } = definition();
    const tasks = Object.values(States)
      .flatMap((outer) => [outer, ...Object.values(outer.ItemProcessor?.States ?? {})])
      .filter(({ Type }) => Type === 'Task');
    const limits = tasks.map((task) => task.TimeoutSeconds).sort();
    expect([...limits, TimeoutSeconds]).toEqual([330, 60, 915, 915, 86_400]);
  });

  test.each([
    ['Steps', 'Spawn'],
    ['WideSteps', 'WideSpawn'],
  ])('%s retries what a retry helps with, and no failing step fails it', (map, spawn) => {
    const task = state(`${map}/${spawn}`);
    const ours = Object.entries(ERRORS);
    expect(retriedErrors(task)).toEqual(
      [
        ...ours.filter(([, { retryable }]) => retryable).map(([code]) => code),
        'Lambda.TooManyRequestsException',
        'Lambda.ServiceException',
        'Lambda.AWSLambdaException',
        'Lambda.SdkClientException',
        'Lambda.Unknown',
        'Lambda.ClientExecutionTimeoutException',
        'Sandbox.Timedout',
        'Runtime.ExitError',
        'States.Timeout',
      ].sort(),
    );
    const [settling, others] = task.Catch ?? [];
    expect(settling?.ErrorEquals).toEqual(ours.filter(([, { stored }]) => stored).map(([code]) => code));
    expect(others?.ErrorEquals).toEqual(['States.ALL']);
    const end = String(settling?.Next);
    expect(state(`${map}/${end}`)).toEqual({ Type: 'Pass', Result: {}, End: true });
    expect(state(`${map}/${others?.Next}`)).toEqual({ Type: 'Wait', Seconds: 10, Next: end });
    expect([task.ResultSelector, state(map).ResultPath]).toEqual([{}, null]);
  });

  test('an attempt that is held elsewhere is asked for until after its claim has ended', () => {
    const [held] = state('Steps/Spawn').Retry as [RetryRule];
    let waited = 0;
    for (let i = 0; i < held.MaxAttempts; i++)
      waited += Math.min(held.IntervalSeconds * held.BackoffRate ** i, held.MaxDelaySeconds);
    expect(held).toMatchObject({ ErrorEquals: ['AttemptInProgress'], JitterStrategy: 'NONE' });
    expect(waited).toBeGreaterThan(885 + 10);
  });

  test('an execution hands over while its history has fewer than 15,000 events, whatever is retried', () => {
    const [handOver] = state('Dispatch').Choices ?? [];
    const { Retry = [] } = state('Steps/Spawn');
    const tries = 1 + Retry.reduce((sum, { MaxAttempts }) => sum + MaxAttempts, 0);
    // scheduled, started and failed for every try; entered and exited of Task, Wait and Pass; the iteration
    const perStep = 3 * tries + 6 + 2;
    const units = Number(handOver?.NumericGreaterThanEquals);
    expect(handOver).toMatchObject({ Variable: '$.spent.units', Next: 'HandOver' });
    expect(units).toBeGreaterThan(40);
    expect((units + 41) * perStep).toBeLessThan(15_000);
    expect(state('HandOver').Parameters).toMatchObject({
      'StateMachineArn.$': '$$.StateMachine.Id',
      'Name.$': "States.Format('{}-{}', $.run_id, States.MathAdd($.execution, 1))",
    });
  });

  test('a wide fan-out is read from the store by a distributed Map', () => {
    expect(state('WideSteps')).toMatchObject({
      ItemReader: {
        Resource: 'arn:aws:states:::s3:getObject',
        ReaderConfig: { InputType: 'JSON' },
        Parameters: { 'Bucket.$': '$.plan.answer.wide.bucket', 'Key.$': '$.plan.answer.wide.key' },
      },
      ItemProcessor: { ProcessorConfig: { Mode: 'DISTRIBUTED', ExecutionType: 'STANDARD' } },
    });
  });
});

test('the example synthesises a valid machine of two steps', async () => {
  const out = join(folder, 'example');
  mkdirSync(out);
  const app = join(clone.folder, 'examples/own-workflow/app.ts');
  await run(
    [
      join(clone.folder, 'node_modules/aws-cdk/bin/cdk'),
      'synth',
      '--quiet',
      '--no-notices',
      '--output',
      out,
      '--app',
      `node ${app}`,
    ],
    out,
  );
  const definition = definitionOf(readTemplate(out, 'own-workflow'));
  expect(validateDefinition(definition, { checkPaths: true, checkArn: true }).errors).toEqual([]);
  const { Draft, Review } = definition.States;
  expect(Draft).toMatchObject({
    Type: 'Task',
    TimeoutSeconds: 930,
    ResultPath: '$.draft',
    Next: 'Review',
    Parameters: {
      'task_id.$': "States.Format('{}-Draft', $$.Execution.Name)",
      attempt: 1,
      agent: 'writer',
      blueprint: { 'digest.$': '$.blueprint' },
      'in.$': '$',
    },
  });
  expect(Review).toMatchObject({ End: true, Parameters: { 'in.$': '$.draft.value' } });
  expect(retriedErrors(stateOf(definition, 'Draft'))).toEqual(
    retriedErrors(stateOf(definitionOf(templates.prod.toJSON()), 'Steps/Spawn')),
  );
});
