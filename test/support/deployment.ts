/**
 * The stack of a fresh clone, bootstrapped and deployed by the CDK's own command line. moto is AWS, and podman's storage
 * the registry of the image; what the CDK runs as `docker` is docker-shim.sh.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Lambda } from '@aws-sdk/client-lambda';
import { S3 } from '@aws-sdk/client-s3';
import { SFN } from '@aws-sdk/client-sfn';
import type { JsonObject } from '../../lib/json.ts';
import { cloneProject, readTemplate } from '../infra/synth.ts';
import { ENVIRONMENT, podman } from './containers.ts';
import { startS3 } from './s3-server.ts';

export const REGION = 'us-east-1';
export const CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'test' };
const ACCOUNT = '123456789012';
const STACK = 'stepspawn-dev';
const COMMAND_MS = 280_000;
const MAX_OUTPUT = 64 * 1024 * 1024;

export interface Deployment {
  readonly url: string;
  readonly s3: S3;
  readonly lambda: Lambda;
  readonly sfn: SFN;
  /** Runs `cdk` on the stack; everything it printed. */
  readonly cdk: (...args: readonly string[]) => Promise<string>;
  /** type of each resource of the template that was not created, in order and each once */
  readonly missing: () => Promise<readonly string[]>;
  /** Physical id of the resource whose logical id is `name` and a hash. */
  readonly idOf: (name: string) => Promise<string>;
  /** Statements of all policies of a role. */
  readonly statements: (role: string) => Promise<readonly JsonObject[]>;
  readonly stop: () => Promise<void>;
}

/** Deploys stage dev without the REST API. What it needs on disk lies in `folder`. */
export async function deploy(folder: string): Promise<Deployment> {
  const image = await nodeImage();
  const project = cloneProject(join(folder, 'project')).folder;
  const server = await startS3();
  const cdk = commandLine(project, image, server.port);
  const out = join(project, 'cdk.out');
  const stop = async (): Promise<void> => {
    await server.stop();
    await podman('rmi', '--ignore', '--no-prune', ...publishedImages(out));
  };
  try {
    await cdk('bootstrap');
    await cdk('deploy', '--require-approval', 'never');
  } catch (error) {
    await stop();
    throw error;
  }
  const client = { endpoint: server.url, region: REGION, credentials: CREDENTIALS };
  const created = () => createdResources(server.url);
  return {
    url: server.url,
    s3: new S3({ ...client, forcePathStyle: true }),
    lambda: new Lambda(client),
    sfn: new SFN(client),
    cdk,
    missing: async () => {
      const ids = await created();
      const resources = Object.entries(readTemplate(out, STACK).Resources as Record<string, JsonObject>);
      const types = resources.filter(([id]) => !ids.has(id)).map(([, { Type }]) => String(Type));
      return [...new Set(types)].sort();
    },
    idOf: async (name) => {
      const logical = new RegExp(`^${name}[0-9A-F]{8}$`);
      const [, id] = [...(await created())].find(([each]) => logical.test(each)) ?? [];
      if (!id) throw new Error(`the stack has no ${name}`);
      return id;
    },
    statements: async (role) => {
      const names = await query(server.url, 'iam', { Action: 'ListRolePolicies', RoleName: role });
      const policies = within(names, 'member').map(async (PolicyName) => {
        const asked = { Action: 'GetRolePolicy', RoleName: role, PolicyName };
        const [document = ''] = within(await query(server.url, 'iam', asked), 'PolicyDocument');
        return (JSON.parse(decodeURIComponent(document)) as { Statement: JsonObject[] }).Statement;
      });
      return (await Promise.all(policies)).flat();
    },
    stop,
  };
}

/** `cdk` as people run it, with AWS, HOME and Docker of this test. */
function commandLine(project: string, image: string, port: number): Deployment['cdk'] {
  const home = join(project, '..', 'home');
  mkdirSync(home, { recursive: true });
  const kept = Object.entries(ENVIRONMENT).filter(([name]) => !/^(AWS|CDK)_/.test(name));
  const env = {
    ...Object.fromEntries(kept),
    HOME: home,
    TMPDIR: home,
    NO_PROXY: 'localhost,127.0.0.1',
    // in the template's URL moto takes the first part of 127.0.0.1 for the bucket
    AWS_ENDPOINT_URL: `http://localhost:${port}`,
    AWS_REGION: REGION,
    AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
    AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    AWS_EC2_METADATA_DISABLED: 'true',
    CDK_DOCKER: join(import.meta.dirname, 'docker-shim.sh'),
    CDK_DISABLE_CLI_TELEMETRY: '1',
    CDK_DISABLE_VERSION_CHECK: '1',
  };
  const options = ['--no-notices', '-c', 'stage=dev', '-c', 'parts=core', '-c', `nodeImage=${image}`];
  const cdk = join(project, 'node_modules/aws-cdk/bin/cdk');
  return async (...args) => {
    const given = [cdk, ...args, ...options];
    const running = promisify(execFile)(process.execPath, given, {
      cwd: project,
      env,
      timeout: COMMAND_MS,
      maxBuffer: MAX_OUTPUT,
    });
    const { stdout, stderr } = await running.catch((error: { stdout: string; stderr: string }) => {
      throw new Error(`cdk ${args.join(' ')} failed:\n${error.stdout}${error.stderr}`);
    });
    return stdout + stderr;
  };
}

/** The base of the image, given as .ci/image.sh takes it or made by it. */
async function nodeImage(): Promise<string> {
  const format = '{{.Repository}}:{{.Tag}}';
  const list = () => podman('images', '--filter', 'reference=localhost/stepspawn-node', '--format', format);
  const image = process.env.NODE_IMAGE || (await list()).split('\n')[0];
  if (image) return image;
  throw new Error('there is no base for the image; run .ci/image.sh, or let NODE_IMAGE name one');
}

/** What the CDK has built and published, under both of its names. */
function publishedImages(out: string): string[] {
  const file = join(out, `${STACK}.assets.json`);
  if (!existsSync(file)) return [];
  const { dockerImages } = JSON.parse(readFileSync(file, 'utf8')) as { dockerImages: JsonObject };
  const repository = `${ACCOUNT}.dkr.ecr.${REGION}.amazonaws.com/cdk-hnb659fds-container-assets-${ACCOUNT}-${REGION}`;
  return Object.keys(dockerImages).flatMap((hash) => [`localhost/cdkasset-${hash}`, `${repository}:${hash}`]);
}

/** Logical id and physical id, empty where there is none, of what CloudFormation has made. */
async function createdResources(url: string): Promise<ReadonlyMap<string, string>> {
  const answer = await query(url, 'cloudformation', { Action: 'DescribeStackResources', StackName: STACK });
  const ids = within(answer, 'member').map(
    (member) =>
      [within(member, 'LogicalResourceId')[0], within(member, 'PhysicalResourceId')[0] ?? ''] as const,
  );
  return new Map(ids.filter((pair): pair is [string, string] => pair[0] !== undefined));
}

/** An action of a service whose client this project has no use for; the answer is XML. */
async function query(url: string, service: string, action: Record<string, string>): Promise<string> {
  const Version = service === 'iam' ? '2010-05-08' : '2010-05-15';
  const scope = `${CREDENTIALS.accessKeyId}/20260101/${REGION}/${service}/aws4_request`;
  const response = await fetch(url, {
    method: 'POST',
    // moto reads the service from it and does not check the signature
    headers: { authorization: `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=none` },
    body: new URLSearchParams({ ...action, Version }),
  });
  const answer = await response.text();
  if (!response.ok) throw new Error(`${action.Action} answered ${response.status}: ${answer}`);
  return answer;
}

/** Contents of all elements of this name, none of which holds another. */
function within(xml: string, name: string): string[] {
  return [...xml.matchAll(new RegExp(`<${name}>(.*?)</${name}>`, 'gs'))].map(([, content = '']) => content);
}
