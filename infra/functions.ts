/** The functions: the worker as an image, the others as bundles, each with a role and a log of its own. */
import { join } from 'node:path';
import { Duration, Size } from 'aws-cdk-lib';
import { Platform } from 'aws-cdk-lib/aws-ecr-assets';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  Architecture,
  Code,
  DockerImageCode,
  DockerImageFunction,
  Function as LambdaFunction,
  Runtime,
  TenancyConfig,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import { SqsDestination } from 'aws-cdk-lib/aws-lambda-destinations';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import { type Settings, writeSettings } from '../lib/config.ts';
import type { StageConfig } from './config.ts';
import { checkedEnvironment } from './environment.ts';
import { logGroup } from './retention.ts';
import { grantSecrets } from './secrets.ts';
import type { Storage } from './storage.ts';

const PROJECT = join(import.meta.dirname, '..');
/** A folder of dist/. */
type Bundle = 'validate' | 'spawn' | 'plan' | 'cancel-marker';

/** An answer of a function behind the API has to come before the gateway's limit. */
const ANSWER_TIME = Duration.seconds(29);
export const PLAN_SECS = 300;

/** What every function has in common. */
function common(scope: Construct, id: string, stage: StageConfig, settings: Partial<Settings>) {
  const logs = logGroup(scope, `${id}Logs`, stage);
  const role = new Role(scope, `${id}Role`, { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
  logs.grantWrite(role);
  return {
    role,
    logGroup: logs,
    tracing: Tracing.ACTIVE,
    architecture: stage.architecture === 'arm64' ? Architecture.ARM_64 : Architecture.X86_64,
    environment: checkedEnvironment(id, writeSettings(settings)),
  };
}

/** A function from a bundle of `npm run build`. */
export function bundledFunction(
  scope: Construct,
  id: string,
  options: {
    readonly stage: StageConfig;
    readonly bundle: Bundle;
    readonly settings: Partial<Settings>;
    readonly memory_mb: number;
    /** @default what the API waits for */
    readonly timeout_secs?: number;
    /** where an asynchronous event goes that failed to the end */
    readonly failures?: Queue;
  },
): LambdaFunction {
  const { stage, bundle, settings, memory_mb, timeout_secs, failures } = options;
  return new LambdaFunction(scope, id, {
    ...common(scope, id, stage, settings),
    runtime: Runtime.NODEJS_24_X,
    code: Code.fromAsset(join(PROJECT, 'dist', bundle), { exclude: ['*.map'] }),
    handler: 'index.handler',
    memorySize: memory_mb,
    timeout: timeout_secs === undefined ? ANSWER_TIME : Duration.seconds(timeout_secs),
    ...(failures && { onFailure: new SqsDestination(failures) }),
  });
}

export class Functions extends Construct {
  /** runs attempts */
  readonly worker: DockerImageFunction;
  /** runs attempts too, and tells its caller what goes on while they run */
  readonly stream: DockerImageFunction;
  /** answers for attempts: hands them to the worker, reads what they came to */
  readonly front: LambdaFunction;
  /** checks and registers Blueprints */
  readonly validate: LambdaFunction;
  /** one hop of a run */
  readonly plan: LambdaFunction;
  /** asynchronous events that failed to the end */
  readonly failures: Queue;

  constructor(
    scope: Construct,
    id: string,
    { stage, store }: { readonly stage: StageConfig; readonly store: Storage },
  ) {
    super(scope, id);
    const { inline_blueprints, secrets } = stage;
    const store_url = store.url;
    this.failures = new Queue(this, 'Failures', {
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      retentionPeriod: Duration.days(14),
    });

    const container = (name: string, entry: string): DockerImageFunction => {
      const made = new DockerImageFunction(this, name, {
        ...common(this, name, stage, { store_url, inline_blueprints, secrets }),
        code: workerImage(stage, entry),
        memorySize: stage.memory_mb,
        ephemeralStorageSize: Size.mebibytes(stage.ephemeral_storage_mb),
        timeout: Duration.seconds(stage.function_timeout_secs),
        ...(stage.concurrency !== null && { reservedConcurrentExecutions: stage.concurrency }),
        ...(stage.tenant_isolation && { tenancyConfig: TenancyConfig.PER_TENANT }),
        retryAttempts: 2,
        onFailure: new SqsDestination(this.failures),
      });
      store.grantRead(made, 'blueprints', 'inputs', 'tasks', 'runs');
      store.grantWrite(made, 'tasks');
      grantSecrets(made, secrets);
      return made;
    };
    this.worker = container('Worker', 'index.handler');
    this.stream = container('Stream', 'index.stream');

    this.front = bundledFunction(this, 'Front', {
      stage,
      bundle: 'spawn',
      settings: { store_url, inline_blueprints, secrets, spawn_function: this.worker.functionName },
      memory_mb: 1024,
    });
    store.grantRead(this.front, 'blueprints', 'inputs', 'tasks', 'runs');
    store.grantWrite(this.front, 'tasks', 'inputs');
    this.worker.grantInvokeLatestVersion(this.front);

    this.validate = bundledFunction(this, 'Validate', {
      stage,
      bundle: 'validate',
      settings: { store_url },
      memory_mb: 1024,
    });
    store.grantWrite(this.validate, 'blueprints');

    this.plan = bundledFunction(this, 'Plan', {
      stage,
      bundle: 'plan',
      settings: { store_url },
      memory_mb: 1769,
      timeout_secs: PLAN_SECS,
    });
    store.grantRead(this.plan, 'blueprints', 'tasks', 'runs');
    store.grantWrite(this.plan, 'runs');
  }
}

/** The context of the build is the project; .dockerignore leaves only image/, dist/spawn and the launcher's source of it. */
function workerImage(stage: StageConfig, entry: string): DockerImageCode {
  return DockerImageCode.fromImageAsset(PROJECT, {
    cmd: [entry],
    file: 'image/Dockerfile',
    platform: stage.architecture === 'arm64' ? Platform.LINUX_ARM64 : Platform.LINUX_AMD64,
    buildArgs: {
      NODE_IMAGE: stage.node_image,
      APT_PACKAGES: stage.apt_packages.join(' '),
      NPM_PACKAGES: stage.npm_packages.join(' '),
    },
  });
}
