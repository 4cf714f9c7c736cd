/**
 * The Lambda Runtime API (2018-06-01) on loopback with execution environments behind it: one listener and one box
 * each. It answers out of turn as AWS's public emulator does: `next` during an invocation gives the same event
 * again, and the first response to an invocation counts.
 */
import { randomUUID } from 'node:crypto';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { isObject, type JsonValue, parseJson } from '../../lib/json.ts';

/** What an execution environment runs in: a container, a process. */
export interface Box {
  readonly id: string;
  /** how it ended, once it has */
  readonly ended: Promise<string>;
  readonly log: () => string;
  readonly stop: () => Promise<void>;
}
/** Starts a box whose Runtime Interface Client asks `host:port` for events. */
export type Launch = (api: string) => Box;

export interface Answer {
  readonly payload: JsonValue;
  /** null: the handler answered */
  readonly error_type: string | null;
  readonly ms: number;
  readonly cold: boolean;
  readonly environment: Environment;
}

export interface Environment {
  readonly box: Box;
  /** host:port of its Runtime API */
  readonly api: string;
  /** milliseconds from the start to the first call of `next` */
  readonly initMs: () => number | undefined;
  readonly isFree: () => boolean;
  readonly isGone: () => boolean;
  readonly run: (event: unknown, deadlineMs: number) => Promise<Pick<Answer, 'payload' | 'error_type'>>;
  readonly stop: () => Promise<void>;
}

export interface LambdaFunction {
  /** Sends an event to a free environment or a new one; `deadline_ms` later that environment is killed. */
  readonly invoke: (event: unknown, options?: { readonly deadline_ms?: number }) => Promise<Answer>;
  readonly environments: () => readonly Environment[];
  readonly stop: () => Promise<void>;
}

const DEADLINE_MS = 60_000;
const ARN = 'arn:aws:lambda:us-east-1:123456789012:function:spawn';

export function lambdaFunction(launch: Launch): LambdaFunction {
  let known: Environment[] = [];
  const stop = async (): Promise<void> => {
    await Promise.all(known.splice(0).map((environment) => environment.stop()));
  };
  return {
    environments: () => known,
    stop,
    invoke: async (event, { deadline_ms = DEADLINE_MS } = {}) => {
      const begun = performance.now();
      known = known.filter((each) => !each.isGone());
      const free = known.find((each) => each.isFree());
      const environment = free ?? (await startEnvironment(launch, (made) => known.push(made)));
      const answer = await environment.run(event, deadline_ms);
      return { ...answer, ms: performance.now() - begun, cold: free === undefined, environment };
    },
  };
}

interface Job {
  readonly id: string;
  readonly body: string;
  readonly deadline: number;
  readonly settle: (answer: Pick<Answer, 'payload' | 'error_type'>) => void;
}

/** Step Functions, too, goes by the errorType in the payload. */
function failure(payload: JsonValue): Pick<Answer, 'payload' | 'error_type'> {
  return { payload, error_type: String(isObject(payload) ? payload.errorType : payload) };
}

async function startEnvironment(launch: Launch, onMade: (made: Environment) => void): Promise<Environment> {
  const begun = performance.now();
  let initMs: number | undefined;
  let waiting: ServerResponse[] = [];
  let running: Job | null = null;
  let taken = true;
  let gone = false;

  const send = (response: ServerResponse, job: Job): void => {
    response.writeHead(200, {
      'content-type': 'application/json',
      'lambda-runtime-aws-request-id': job.id,
      'lambda-runtime-deadline-ms': String(job.deadline),
      'lambda-runtime-invoked-function-arn': ARN,
      'lambda-runtime-trace-id': `Root=1-${Math.floor(job.deadline / 1000).toString(16)}-${job.id.replaceAll('-', '').slice(8)};Sampled=1`,
    });
    response.end(job.body);
  };
  const deliver = (): void => {
    const first = waiting.shift();
    if (first && running) send(first, running);
    else if (first) waiting.unshift(first);
  };
  const settle = (answer: Pick<Answer, 'payload' | 'error_type'>): void => {
    running?.settle(answer);
    running = null;
    taken = false;
  };
  const next = (response: ServerResponse): void => {
    initMs ??= performance.now() - begun;
    response.once('close', () => {
      waiting = waiting.filter((each) => each !== response);
    });
    waiting.push(response);
    deliver();
  };

  const server = createServer(async (request, response) => {
    const body = await text(request);
    const path = request.url?.replace('/2018-06-01/runtime/', '') ?? '';
    const accept = (): void => void response.writeHead(202).end('{"status":"OK"}');
    const refuse = (status: number, errorType: string): void =>
      void response.writeHead(status).end(JSON.stringify({ errorType, errorMessage: errorType }));
    const [, id, kind] = /^invocation\/([^/]+)\/(response|error)$/.exec(path) ?? [];
    if (path === 'invocation/next') next(response);
    else if (path === 'init/error') {
      accept();
      settle({
        payload: parseJson(body),
        error_type: String(request.headers['lambda-runtime-function-error-type']),
      });
    } else if (id === undefined) refuse(404, 'NotFound');
    else if (running === null) refuse(403, 'InvalidStateTransition');
    else if (running.id !== id) refuse(400, 'InvalidRequestID');
    else {
      accept();
      // a streamed answer is no JSON: its metadata, eight NUL bytes, and what was streamed
      const streamed = request.headers['lambda-runtime-function-response-mode'] === 'streaming';
      const payload = streamed ? body : parseJson(body);
      settle(kind === 'error' ? failure(payload) : { payload, error_type: null });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const api = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const box = launch(api);
  const close = (): void => {
    gone = true;
    server.close();
    server.closeAllConnections();
  };
  void box.ended.then((how) => {
    close();
    settle({ payload: `Runtime exited with error: ${how}\n${box.log()}`, error_type: 'Runtime.ExitError' });
  });
  const environment: Environment = {
    box,
    api,
    initMs: () => initMs,
    isFree: () => !taken && !gone,
    isGone: () => gone,
    stop: async () => {
      await box.stop();
      close();
    },
    run: async (event, deadlineMs) => {
      taken = true;
      const deadline = Date.now() + deadlineMs;
      let timer: NodeJS.Timeout | undefined;
      try {
        return await new Promise((resolve) => {
          running = { id: randomUUID(), body: JSON.stringify(event), deadline, settle: resolve };
          timer = setTimeout(() => {
            settle({ payload: `Task timed out\n${box.log()}`, error_type: 'Sandbox.Timedout' });
            void environment.stop();
            gone = true;
          }, deadlineMs);
          deliver();
        });
      } finally {
        clearTimeout(timer);
      }
    },
  };
  onMade(environment);
  return environment;
}
