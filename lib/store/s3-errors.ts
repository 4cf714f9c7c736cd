/** From what the SDK throws to StoreUnavailable: which object, what happened, what to do about it. */
import { StepspawnError } from '../errors.ts';

export type Deed = 'read' | 'created' | 'replaced' | 'uploaded' | 'listed';

interface Cause {
  /** S3's error code, or the SDK's or Node's name for it */
  readonly name: string;
  /** of the answer; undefined when none came */
  readonly status: number | undefined;
  readonly message: string;
}

/** What an error of the SDK says. Node's own code of a lost connection comes before its class. */
export function causeOf(error: unknown): Cause {
  if (!(error instanceof Error)) return { name: 'Error', status: undefined, message: String(error) };
  const name = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  const metadata: unknown = '$metadata' in error ? error.$metadata : undefined;
  const status =
    typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata
      ? metadata.httpStatusCode
      : undefined;
  return { name, status: typeof status === 'number' ? status : undefined, message: error.message };
}

/** `place` is the object's or prefix's URL. */
export function storeUnavailable(error: unknown, place: string, deed: Deed): StepspawnError {
  if (error instanceof StepspawnError) return error;
  const cause = causeOf(error);
  const told = [describe(cause), hint(cause, deed)].filter((text) => text !== '').join('; ');
  return new StepspawnError('StoreUnavailable', `${place} cannot be ${deed}: ${told}`, { cause: error });
}

/** `AccessDenied: Access Denied`, without what only repeats or says nothing. */
function describe({ name, status, message }: Cause): string {
  const named = name === 'Error' || message.includes(name) ? '' : name;
  const numbered = status !== undefined && /unknown/i.test(name) ? `HTTP ${status}` : '';
  const text = message === name || /unknown/i.test(message) ? '' : message.trim().replace(/\.$/, '');
  return [numbered, named, text].filter((part) => part !== '').join(': ') || name;
}

const CLOCK = 'set the clock of this machine';
const CREDENTIALS = 'check the credentials that AWS_ACCESS_KEY_ID, AWS_PROFILE or the role give';
const REGION = 'the bucket lies in another region; set AWS_REGION to it';
const BUSY = 'the server throttles or is overloaded; try again later';
const NETWORK = 'check the network and the endpoint, which AWS_ENDPOINT_URL_S3 or AWS_REGION give';

const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: 'make the bucket, or correct the store URL',
  RequestTimeTooSkewed: CLOCK,
  RequestExpired: CLOCK,
  InvalidAccessKeyId: CREDENTIALS,
  SignatureDoesNotMatch: CREDENTIALS,
  InvalidToken: CREDENTIALS,
  ExpiredToken: CREDENTIALS,
  CredentialsProviderError: 'give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE or a role',
  PermanentRedirect: REGION,
  AuthorizationHeaderMalformed: REGION,
  SlowDown: BUSY,
  ServiceUnavailable: BUSY,
  ConditionalRequestConflict: 'other writers keep at the same object; try again later',
  NotImplemented: 'the server must support conditional writes (If-None-Match and If-Match)',
  ENOTFOUND: NETWORK,
  EAI_AGAIN: NETWORK,
  ECONNREFUSED: NETWORK,
  ECONNRESET: NETWORK,
  EHOSTUNREACH: NETWORK,
  ENETUNREACH: NETWORK,
  ETIMEDOUT: NETWORK,
  TimeoutError: NETWORK,
};

const NEEDED: Readonly<Record<Deed, string>> = {
  read: 's3:GetObject, and s3:ListBucket, without which S3 answers the same for an object that is not there',
  created: 's3:PutObject',
  replaced: 's3:PutObject and s3:GetObject',
  uploaded: 's3:PutObject and s3:AbortMultipartUpload',
  listed: 's3:ListBucket',
};

function hint({ name, status, message }: Cause, deed: Deed): string {
  if (name === 'AccessDenied') return `the credentials need ${NEEDED[deed]}`;
  if (message.startsWith('Region ')) return 'set AWS_REGION';
  const known = Object.hasOwn(HINTS, name) ? HINTS[name] : undefined;
  return known ?? (status === 429 || status === 503 ? BUSY : '');
}
