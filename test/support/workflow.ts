/**
 * The synthesised workflow, executed: moto interprets the state machine and is the store, and the functions of the
 * template run in processes of their own, one event at a time, each behind a Runtime API.
 */
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import {
  CreateStateMachineCommand,
  DescribeExecutionCommand,
  type DescribeExecutionOutput,
  GetExecutionHistoryCommand,
  type HistoryEvent,
  SFNClient,
  StopExecutionCommand,
} from '@aws-sdk/client-sfn';
import type { JsonObject, JsonValue } from '../../lib/json.ts';
import type { ObjectStore } from '../../lib/store/object-store.ts';
import { s3Store } from '../../lib/store/s3.ts';
import { definitionOf, readTemplate, text } from '../infra/synth.ts';
import { type Answer, type Box, type LambdaFunction, lambdaFunction } from './runtime-api.ts';
import { startS3 } from './s3-server.ts';
import { startProxy } from './workflow-proxy.ts';

const BUCKET = 'stepspawn';
const ACCOUNT = '123456789012';
const REGION = 'us-east-1';
const KEYS = { accessKeyId: 'test', secretAccessKey: 'test' };
const RUNTIME = join(import.meta.dirname, '..', 'workflow', 'runtime.ts');

export interface Workflow {
  readonly store: ObjectStore;
  /** Invokes the function whose logical id begins with `name`. */
  readonly invoke: (name: string, event: JsonValue) => Promise<Answer>;
  /** every call that the state machine made, as it ended */
  readonly calls: readonly Call[];
  /** null: there is no such execution */
  readonly describe: (name: string) => Promise<DescribeExecutionOutput | null>;
  readonly history: (name: string) => Promise<HistoryEvent[]>;
  readonly abort: (name: string) => Promise<void>;
  readonly stop: () => Promise<void>;
}

export interface Call {
  /** logical id of the function */
  readonly name: string;
  readonly event: JsonObject;
  readonly answer: JsonValue;
  /** null: it answered */
  readonly error_type: string | null;
}

/** Deploys `stack` of the cloud assembly `out`; `worker` is the bundle of its image, `scratch` a folder to work in. */
export async function startWorkflow(of: {
  readonly out: string;
  readonly stack: string;
  readonly worker: string;
  readonly scratch: string;
}): Promise<Workflow> {
  const template = readTemplate(of.out, of.stack);
  const functions = new Map<string, LambdaFunction>();
  const deadlines = new Map<string, number>();
  const calls: Call[] = [];
  const invoke = (name: string, event: JsonValue): Promise<Answer> => {
    const [id, found] = [...functions].find(([known]) => known.startsWith(name)) ?? [];
    if (!found) throw new Error(`no function ${name} among ${[...functions.keys()].join(' ')}`);
    return found.invoke(event, { deadline_ms: deadlines.get(id ?? '') });
  };
  const proxy = await startProxy(async (name, event) => {
    const answer = await invoke(name, event);
    calls.push({ name, event, answer: answer.payload, error_type: answer.error_type });
    return answer;
  });
  const server = await startS3({ MOTO_PORT: String(proxy.port) });
  proxy.forwardTo(server.port);
  await fetch(`${server.url}/moto-api/config`, {
    method: 'POST',
    body: JSON.stringify({ stepfunctions: { execute_state_machine: true } }),
  });
  const client = { endpoint: server.url, region: REGION, credentials: KEYS };
  await new S3Client({ ...client, forcePathStyle: true }).send(new CreateBucketCommand({ Bucket: BUCKET }));
  const sfn = new SFNClient(client);
  const { stateMachineArn: arn = '' } = await sfn.send(
    new CreateStateMachineCommand({
      name: 'workflow',
      roleArn: `arn:aws:iam::${ACCOUNT}:role/workflow`,
      definition: JSON.stringify(definitionOf(template)).replaceAll(
        /"(\w+)\.Arn"/g,
        `"arn:aws:lambda:${REGION}:${ACCOUNT}:function:$1"`,
      ),
    }),
  );

  const resources = Object.entries(template.Resources as unknown as Record<string, Resource>);
  const named = (type: string) => resources.filter(([, resource]) => resource.Type === type);
  const known = new Map([
    ...named('AWS::S3::Bucket').map(([id]) => [id, BUCKET] as const),
    ...named('AWS::StepFunctions::StateMachine').map(([id]) => [id, arn] as const),
  ]);
  for (const [id, { Properties }] of named('AWS::Lambda::Function')) {
    const variables = Object.entries(Properties.Environment?.Variables ?? {}).map(
      ([name, value]) => [name, withNames(text(value), known)] as const,
    );
    const code = Properties.Code.S3Key;
    const bundle = code === undefined ? of.worker : join(of.out, `asset.${text(code).replace(/\.zip$/, '')}`);
    const env = {
      ...Object.fromEntries(variables),
      PATH: process.env.PATH ?? '',
      SCRATCH_DIR: of.scratch,
      AWS_REGION: REGION,
      AWS_ENDPOINT_URL: server.url,
      AWS_ACCESS_KEY_ID: KEYS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey,
    };
    functions.set(
      id,
      lambdaFunction((api) => processBox(join(bundle, 'index.mjs'), { ...env, AWS_LAMBDA_RUNTIME_API: api })),
    );
    deadlines.set(id, Properties.Timeout * 1000);
  }

  const executionArn = (name: string): string => `${arn.replace(':stateMachine:', ':execution:')}:${name}`;
  return {
    store: s3Store(`s3://${BUCKET}`, { endpoint: server.url, region: REGION, credentials: KEYS }),
    invoke,
    calls,
    describe: (name) =>
      sfn.send(new DescribeExecutionCommand({ executionArn: executionArn(name) })).catch((error: Error) => {
        if (error.name === 'ExecutionDoesNotExist') return null;
        throw error;
      }),
    history: async (name) => {
      const all: HistoryEvent[] = [];
      for (let nextToken: string | undefined; ; ) {
        const asked = { executionArn: executionArn(name), maxResults: 1000, nextToken };
        const page = await sfn.send(new GetExecutionHistoryCommand(asked));
        all.push(...(page.events ?? []));
        nextToken = page.nextToken;
        if (!nextToken) return all;
      }
    },
    abort: async (name) => {
      await sfn.send(new StopExecutionCommand({ executionArn: executionArn(name) }));
    },
    stop: async () => {
      await server.stop();
      await proxy.stop();
      await Promise.all([...functions.values()].map((each) => each.stop()));
    },
  };
}

interface Resource {
  readonly Type: string;
  readonly Properties: {
    readonly Timeout: number;
    readonly Code: { readonly S3Key?: JsonValue };
    readonly Environment?: { readonly Variables: JsonObject };
  };
}

function withNames(given: string, known: ReadonlyMap<string, string>): string {
  return [...known].reduce((all, [id, name]) => all.replaceAll(id, name), given);
}

/** An execution environment as a process; its children are not ended with it. */
function processBox(bundle: string, env: Readonly<Record<string, string>>): Box {
  const child = spawn(process.execPath, [RUNTIME, bundle], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => {
      log = (log + chunk).slice(-4000);
    });
  const ended = new Promise<string>((resolve) =>
    child.once('exit', (code, signal) => resolve(signal ? `signal: ${signal}` : `exit status ${code}`)),
  );
  return {
    id: String(child.pid),
    ended,
    log: () => log,
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
