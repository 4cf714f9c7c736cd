/** Secrets by reference: of this machine, and of AWS against a real server of its API. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { localSecrets, NO_SECRETS } from '../lib/secrets.ts';
import { awsSecrets } from '../lib/secrets-aws.ts';
import { temporaryFolder } from './support/ports.ts';
import { startS3 } from './support/s3-server.ts';

const folder = temporaryFolder();

describe('secrets of this machine', () => {
  test('come from a variable or a file, without its last line break', async () => {
    const file = join(mkdtempSync(join(folder, 's-')), 'secret');
    writeFileSync(file, 'from-file\n');
    const secrets = localSecrets({ a: 'env:A', b: `file:${file}` }, { A: 'from-env' });
    expect([...secrets.names]).toEqual(['a', 'b']);
    expect([await secrets.resolve('a'), await secrets.resolve('b')]).toEqual(['from-env', 'from-file']);
  });

  test('say what is missing', async () => {
    const secrets = localSecrets({ a: 'env:A', b: 'file:/no/such/file' }, {});
    await expect(secrets.resolve('a')).rejects.toThrow(
      "secret 'a' cannot be resolved: environment variable A is not set",
    );
    await expect(secrets.resolve('b')).rejects.toThrow('file /no/such/file cannot be read: ENOENT');
    await expect(secrets.resolve('c')).rejects.toThrow("secret 'c' is not mapped");
    await expect(NO_SECRETS.resolve('x')).rejects.toMatchObject({ code: 'StoreUnavailable' });
    expect(() => localSecrets({ a: 'vault:x' }, {})).toThrow('expected env:VARIABLE or file:PATH');
  });
});

describe('secrets of AWS', () => {
  let server: Awaited<ReturnType<typeof startS3>>;
  beforeAll(async () => {
    server = await startS3();
    Object.assign(process.env, {
      AWS_ENDPOINT_URL_SECRETS_MANAGER: server.url,
      AWS_ENDPOINT_URL_SSM: server.url,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'test',
      AWS_SECRET_ACCESS_KEY: 'test',
    });
  }, 60_000);
  afterAll(async () => {
    await server?.stop();
    for (const name of ['AWS_ENDPOINT_URL_SECRETS_MANAGER', 'AWS_ENDPOINT_URL_SSM']) delete process.env[name];
  });

  test('come from Secrets Manager and from the parameter store, and are asked for once', async () => {
    const { CreateSecretCommand, PutSecretValueCommand, SecretsManagerClient } = await import(
      '@aws-sdk/client-secrets-manager'
    );
    const { PutParameterCommand, SSMClient } = await import('@aws-sdk/client-ssm');
    const manager = new SecretsManagerClient({});
    await manager.send(new CreateSecretCommand({ Name: 'team/api', SecretString: 'first-value' }));
    await new SSMClient({}).send(
      new PutParameterCommand({ Name: '/team/token', Value: 'parameter-value', Type: 'SecureString' }),
    );
    const secrets = awsSecrets(
      { api: 'secretsmanager:team/api', token: 'ssm:/team/token', local: 'env:L' },
      { L: 'local-value' },
    );
    const all = async () => Promise.all(['api', 'token', 'local'].map((name) => secrets.resolve(name)));
    expect(await all()).toEqual(['first-value', 'parameter-value', 'local-value']);
    await manager.send(new PutSecretValueCommand({ SecretId: 'team/api', SecretString: 'second-value' }));
    expect(await all()).toEqual(['first-value', 'parameter-value', 'local-value']);
  });

  test('that do not exist are told, and asked for again the next time', async () => {
    const secrets = awsSecrets({ api: 'secretsmanager:not/there' }, {});
    for (let time = 0; time < 2; time++)
      await expect(secrets.resolve('api')).rejects.toMatchObject({
        code: 'StoreUnavailable',
        message: expect.stringContaining('ResourceNotFoundException'),
      });
  });
});
