/** The local server: the same routes through the same handlers as on AWS, over a folder store. */
import { Console } from 'node:console';
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname } from 'node:path';
import type { Context } from 'aws-lambda';
import type { RestEvent } from '../functions/http.ts';
import { readSettings, writeSettings } from '../lib/config.ts';
import { ERRORS, errorBody, StepspawnError } from '../lib/errors.ts';
import { EXIT, print, say, UsageError } from './output.ts';
import { chosenStore, type PortOptions } from './ports.ts';

export interface ServeOptions extends PortOptions {
  readonly port: number;
  readonly host: string;
  /** file that holds the token which every caller must send */
  readonly tokenFile?: string;
  readonly childUser?: string;
}

type Handler = (event: unknown, context: Context) => Promise<unknown>;

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);
const LOOPBACK_HOST = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;
const MAX_BODY_BYTES = 5_000_000;
/** logs go to stderr, through the console, and no metrics are printed */
const LOGGING = { POWERTOOLS_DEV: 'true', POWERTOOLS_METRICS_DISABLED: 'true' };
/** how long running attempts get at the end before they are interrupted */
const STOP_MS = 10_000;

/** `stepspawn serve`: prints one line of JSON when it is ready, and runs until it is told to stop. */
export async function serveCommand(options: ServeOptions): Promise<void> {
  const token = await readToken(options);
  const { url } = chosenStore(options.store);
  const { secret, childUser } = options;
  const settings = { store_url: url, keeps_running: true, ...(secret && { secrets: { ...secret } }) };
  globalThis.console = new Console(process.stderr);
  Object.assign(
    process.env,
    LOGGING,
    writeSettings(settings),
    childUser === undefined ? {} : { CHILD_USER: childUser },
  );
  const { scratch_dir } = readSettings(process.env);
  if (childUser !== undefined) await checkPassable(scratch_dir);
  const handlers = await loadHandlers();
  const { closePorts, goesOn } = await import('../functions/ports.ts');
  const server = createServer((request, response) => {
    void goesOn(answer(request, response, handlers, token));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) =>
      reject(new UsageError(`cannot listen on ${options.host}:${options.port}: ${error.message}`)),
    );
    server.listen(options.port, options.host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  print({
    ready: true,
    url: `http://${options.host.includes(':') ? `[${options.host}]` : options.host}:${port}`,
    store: url,
  });

  const stop = Promise.withResolvers<NodeJS.Signals>();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stop.resolve(name));
  const signal = await stop.promise;
  say(`${signal}: no new requests, waiting for what runs`);
  server.close();
  const clean = await closePorts(STOP_MS);
  process.exitCode = clean ? EXIT.ok : EXIT.interrupted;
  process.exit();
}

/** Another user must be able to reach its own files below the scratch folder. */
async function checkPassable(dir: string): Promise<void> {
  const { mode } = await stat(dir);
  if ((mode & 0o001) === 0)
    throw new UsageError(
      `SCRATCH_DIR: other users cannot pass through ${dir}, so --child-user cannot work; chmod o+x it`,
    );
  if (dirname(dir) !== dir) await checkPassable(dirname(dir));
}

async function readToken({ host, tokenFile }: ServeOptions): Promise<string | null> {
  if (tokenFile === undefined) {
    if (LOOPBACK.has(host)) return null;
    throw new UsageError(
      `--host ${host} is reachable from elsewhere; give --token-file with a token that callers must send`,
    );
  }
  const token = (await readFile(tokenFile, 'utf8').catch(() => '')).trim();
  if (token.length >= MIN_TOKEN_CHARS) return token;
  throw new UsageError(
    `--token-file ${tokenFile}: expected a file with a token of at least ${MIN_TOKEN_CHARS} characters`,
  );
}
const MIN_TOKEN_CHARS = 16;

/** The handlers by the first path that is theirs. */
async function loadHandlers(): Promise<readonly (readonly [RegExp, Handler])[]> {
  const [validate, spawn, plan] = await Promise.all([
    import('../functions/validate.ts'),
    import('../functions/spawn.ts'),
    import('../functions/plan.ts'),
  ]);
  return [
    [/^\/v1\/(validate|blueprints)(\/|$)/, validate.handler],
    [/^\/v1\/runs(\/|$)/, plan.handler],
    [/^/, spawn.handler],
  ];
}

interface Answered {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body: string;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  handlers: Awaited<ReturnType<typeof loadHandlers>>,
  token: string | null,
): Promise<void> {
  const request_id = randomUUID();
  try {
    const event = await eventOf(request, request_id, token);
    if (event.httpMethod === 'POST' && event.path === '/v1/spawn/stream') {
      const { answerStream } = await import('../functions/spawn.ts');
      await answerStream(event, contextOf(request_id), (status, headers) =>
        response.writeHead(status, headers),
      );
    } else send(response, await answered(event, handlers));
  } catch (error) {
    const body = errorBody(error);
    send(response, {
      statusCode: ERRORS[body.code].http,
      body: JSON.stringify({ error: { ...body, request_id } }),
    });
  }
}

function send(response: ServerResponse, { statusCode, headers, body }: Answered): void {
  response.writeHead(statusCode, {
    'content-type': 'application/json',
    ...headers,
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

async function answered(
  event: RestEvent,
  handlers: Awaited<ReturnType<typeof loadHandlers>>,
): Promise<Answered> {
  const handler = handlers.find(([pattern]) => pattern.test(event.path))?.[1];
  return (await handler?.(event, contextOf(event.requestContext.requestId ?? ''))) as Answered;
}

/** The request as API Gateway hands it to a function. Throws Forbidden and RequestTooLarge. */
async function eventOf(
  request: IncomingMessage,
  request_id: string,
  token: string | null,
): Promise<RestEvent> {
  refuseStrangers(request, token);
  return {
    httpMethod: request.method ?? 'GET',
    path: (request.url ?? '/').split('?', 1)[0] ?? '/',
    headers: { 'content-type': request.headers['content-type'] },
    body: await readBody(request),
    isBase64Encoded: false,
    requestContext: { requestId: request_id },
  };
}

/** A page in a browser must not reach this server: neither by a name that leads here, nor from its own origin. */
function refuseStrangers({ headers }: IncomingMessage, token: string | null): void {
  if (headers.origin !== undefined)
    throw new StepspawnError('Forbidden', 'requests that carry an Origin are refused');
  if (token === null) {
    if (LOOPBACK_HOST.test(headers.host ?? '')) return;
    throw new StepspawnError(
      'Forbidden',
      `host '${headers.host ?? ''}' is refused; use localhost, 127.0.0.1 or [::1]`,
    );
  }
  const expected = createHash('sha256').update(`Bearer ${token}`).digest();
  const given = createHash('sha256')
    .update(headers.authorization ?? '')
    .digest();
  if (!timingSafeEqual(expected, given))
    throw new StepspawnError('Forbidden', 'send the token as Authorization: Bearer ...');
}

/** A body over the limit is read on up to here, so that its sender gets to see the answer. */
const DRAINED_BYTES = 10 * MAX_BODY_BYTES;

async function readBody(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > DRAINED_BYTES) break;
    if (size <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  if (size > MAX_BODY_BYTES)
    throw new StepspawnError('RequestTooLarge', `the body is longer than ${MAX_BODY_BYTES} bytes`);
  return Buffer.concat(chunks).toString();
}

/** the longest that a timer can be set to */
const FOR_EVER_MS = 2 ** 31 - 1;

/** What the handlers read of Lambda's context; here nothing ends an invocation. */
function contextOf(request_id: string): Context {
  return {
    functionName: 'serve',
    functionVersion: '1',
    invokedFunctionArn: 'local',
    memoryLimitInMB: '0',
    awsRequestId: request_id,
    getRemainingTimeInMillis: () => FOR_EVER_MS,
  } as Context;
}
