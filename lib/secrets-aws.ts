/** Secrets in AWS: name to `secretsmanager:ID`, `ssm:NAME`, or a local source; each value is kept for five minutes. */
import { StepspawnError } from './errors.ts';
import { localSecrets, type Secrets } from './secrets.ts';

const KEPT_MS = 5 * 60 * 1000;

type Fetch = (place: string) => Promise<string | undefined>;

const FETCH: Readonly<Record<string, Fetch>> = {
  secretsmanager: async (place) => {
    const { GetSecretValueCommand, SecretsManagerClient } = await import('@aws-sdk/client-secrets-manager');
    const { SecretString } = await new SecretsManagerClient({}).send(
      new GetSecretValueCommand({ SecretId: place }),
    );
    return SecretString;
  },
  ssm: async (place) => {
    const { GetParameterCommand, SSMClient } = await import('@aws-sdk/client-ssm');
    const answer = await new SSMClient({}).send(
      new GetParameterCommand({ Name: place, WithDecryption: true }),
    );
    return answer.Parameter?.Value;
  },
};

const kept = new Map<string, { readonly value: Promise<string>; readonly until: number }>();

/** Resolves mapped names. The clients are loaded when a secret is first asked for. */
export function awsSecrets(
  mapping: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Secrets {
  const isRemote = (source: string): boolean => Object.hasOwn(FETCH, source.slice(0, source.indexOf(':')));
  const local = Object.fromEntries(Object.entries(mapping).filter(([, source]) => !isRemote(source)));
  const fallback = localSecrets(local, environment);
  return {
    names: new Set(Object.keys(mapping)),
    resolve: (name) => {
      const source = mapping[name];
      return source !== undefined && isRemote(source) ? remote(name, source) : fallback.resolve(name);
    },
  };
}

function remote(name: string, source: string): Promise<string> {
  const known = kept.get(source);
  if (known && known.until > performance.now()) return known.value;
  const value = fetchSecret(name, source);
  kept.set(source, { value, until: performance.now() + KEPT_MS });
  value.catch(() => kept.delete(source));
  return value;
}

async function fetchSecret(name: string, source: string): Promise<string> {
  const colon = source.indexOf(':');
  try {
    const value = await FETCH[source.slice(0, colon)]?.(source.slice(colon + 1));
    if (value !== undefined) return value;
    throw new Error('it has no text value');
  } catch (error) {
    const why = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    throw new StepspawnError(
      'StoreUnavailable',
      `secret '${name}' cannot be resolved from ${source}: ${why}`,
      { cause: error },
    );
  }
}
