/** The connection to S3: the SDK, loaded with the first request, with its retries and time-outs set. */
import type { S3 } from '@aws-sdk/client-s3';

/** What the SDK otherwise finds for itself: in AWS_* variables, the shared configuration files or a role. */
export interface S3Options {
  readonly endpoint?: string;
  readonly region?: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
  /** milliseconds without a byte from the server after which a request is lost @default 10,000 */
  readonly stall_ms?: number;
}

export interface S3Clients {
  /** gives up a request when nothing arrives for `stall_ms` */
  readonly requests: S3;
  /** gives up only until the answer begins: whoever reads the body may take their time */
  readonly streams: S3;
  readonly stall_ms: number;
}

const CONNECT_MS = 3000;
const STALL_MS = 10_000;
/** A request that waits for a free one counts as not connecting. */
const SOCKETS = 200;
/** Throttling, 5xx, lost connections and time-outs are tried again, with jitter: 5 stalls end after about a minute. */
const ATTEMPTS = 5;

export async function connect({ stall_ms = STALL_MS, ...given }: S3Options): Promise<S3Clients> {
  const { S3 } = await import('@aws-sdk/client-s3');
  const shared = { ...given, maxAttempts: ATTEMPTS, retryMode: 'standard', expectContinueHeader: false };
  const sockets = { maxSockets: SOCKETS };
  const handler = { connectionTimeout: CONNECT_MS, httpAgent: sockets, httpsAgent: sockets };
  const requests = withPathStyle(
    new S3({ ...shared, requestHandler: { ...handler, socketTimeout: stall_ms } }),
  );
  const streams = withPathStyle(
    new S3({
      ...shared,
      credentials: requests.config.credentials,
      requestHandler: {
        ...handler,
        requestTimeout: stall_ms,
        throwOnRequestTimeout: true,
        socketTimeout: 0,
      },
    }),
  );
  return { requests, streams, stall_ms };
}

/** Servers of one's own seldom have a host name for each bucket: the bucket goes into the path for them. */
function withPathStyle(client: S3): S3 {
  const resolve = client.config.endpointProvider;
  client.config.endpointProvider = (given, context) => {
    const own =
      given.Endpoint !== undefined && !/\.amazonaws\.com(\.cn)?$/.test(new URL(given.Endpoint).hostname);
    return resolve(own ? { ...given, ForcePathStyle: true } : given, context);
  };
  return client;
}
