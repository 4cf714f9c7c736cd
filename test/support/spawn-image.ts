/** The spawn image behind the Runtime API with its store on a real S3 server; all of it ends after the tests of the file. */
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { S3 } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, inject } from 'vitest';
import { isObject, type JsonObject, type JsonValue, parseJson } from '../../lib/json.ts';
import { attemptKey } from '../../lib/store/keys.ts';
import { type ContainerOptions, container } from './containers.ts';
import { type Answer, type LambdaFunction, lambdaFunction } from './runtime-api.ts';
import { type S3Server, startS3 } from './s3-server.ts';

/** What Lambda puts into the function's environment and no child may see. */
export const HOST_SECRETS = {
  AWS_ACCESS_KEY_ID: 'host-key-id-3f9a61',
  AWS_SECRET_ACCESS_KEY: 'host-secret-key-9c27d4',
  AWS_SESSION_TOKEN: 'host-session-token-51be08',
} as const;

const BUCKET = 'results';

export interface SpawnImage {
  /** a function of its own, with environments of its own, on the common store */
  readonly make: (given?: Partial<ContainerOptions>) => LambdaFunction;
  /** the text of an object of an attempt, or null */
  readonly stored: (taskId: string, name?: string) => Promise<string | null>;
  /** folder that every container sees at /mnt */
  readonly shared: () => string;
}

export function spawnImage(): SpawnImage {
  const functions: LambdaFunction[] = [];
  let server: S3Server;
  let folder: string;
  let s3: S3;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stepspawn-image-'));
    mkdirSync(join(folder, 'shared'));
    chmodSync(join(folder, 'shared'), 0o777);
    server = await startS3();
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    s3 = new S3({ endpoint: server.url, region: 'us-east-1', credentials, forcePathStyle: true });
    await s3.createBucket({ Bucket: BUCKET });
  });
  afterAll(async () => {
    await Promise.all(functions.map((each) => each.stop()));
    await server?.stop();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });
  return {
    make: (given = {}) => {
      const env = {
        STORE_URL: `s3://${BUCKET}/stage`,
        AWS_ENDPOINT_URL_S3: server.url,
        AWS_REGION: 'us-east-1',
        ...HOST_SECRETS,
        ...given.env,
      };
      const image = inject('image');
      const made = lambdaFunction(container({ image, shared: join(folder, 'shared'), ...given, env }));
      functions.push(made);
      return made;
    },
    stored: async (taskId, name = 'result.json') => {
      const Key = `stage/${attemptKey(taskId, 1, name)}`;
      const found = await s3.getObject({ Bucket: BUCKET, Key }).catch((error: Error) => {
        if (error.name === 'NoSuchKey') return null;
        throw error;
      });
      return found?.Body ? found.Body.transformToString() : null;
    },
    shared: () => join(folder, 'shared'),
  };
}

/** The result that the handler answered. */
export function resultOf({ payload, error_type, environment }: Answer): JsonObject {
  expect(error_type, `${JSON.stringify(payload)}\n${environment.box.log()}`).toBeNull();
  if (isObject(payload)) return payload;
  throw new Error(`the handler answered ${JSON.stringify(payload)}`);
}

/** The result in the store. */
export function parsed(body: string | null): JsonValue {
  if (body === null) throw new Error('there is no such object in the store');
  return parseJson(body);
}
