/** REST proxy events <-> calls of routes, for middy: our errors become answers, everything else stays inside. */
import type middy from '@middy/core';
import type { APIGatewayProxyResult, Context } from 'aws-lambda';
import * as z from 'zod/mini';
import { ERRORS, errorBody, StepspawnError } from '../lib/errors.ts';
import { compactJson, type JsonValue, parseJson } from '../lib/json.ts';

/** A body of more bytes is refused: Lambda takes 6 MB with all that surrounds it. */
export const MAX_BODY_BYTES = 5_000_000;

const RestEvent = z.object({
  httpMethod: z.string(),
  path: z.string(),
  headers: z.nullish(z.record(z.string(), z.optional(z.string()))),
  body: z.nullish(z.string()),
  isBase64Encoded: z.nullish(z.boolean()),
  requestContext: z.looseObject({ requestId: z.nullish(z.string()) }),
});
export type RestEvent = z.infer<typeof RestEvent>;

export interface Call {
  /** values of `{name}` in the route's path */
  readonly params: Readonly<Record<string, string>>;
  /** the parsed body of a POST, else null */
  readonly body: JsonValue;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route {
  readonly method: 'GET' | 'POST';
  /** `/v1/tasks/{task_id}/{attempt}` */
  readonly path: string;
  readonly answer: (call: Call, context: Context) => Promise<Answer>;
}

/** Whether the event is a REST proxy event; anything else is a direct invocation. */
export function isRestEvent(event: unknown): event is RestEvent {
  return RestEvent.safeParse(event).success;
}

/** Answers the event by the route that its path and method name. Throws NotFound, MethodNotAllowed and what the body breaks. */
export async function routed(
  routes: readonly Route[],
  event: RestEvent,
  context: Context,
): Promise<APIGatewayProxyResult> {
  const matching = routes.flatMap((route) => {
    const params = match(route.path, event.path);
    return params ? [{ route, params }] : [];
  });
  if (matching.length === 0) throw new StepspawnError('NotFound', `no route ${event.path}`);
  const found = matching.find(({ route }) => route.method === event.httpMethod);
  if (!found) {
    const allowed = matching.map(({ route }) => route.method).join(', ');
    throw new StepspawnError(
      'MethodNotAllowed',
      `${event.httpMethod} is not allowed on ${event.path}; allowed: ${allowed}`,
    );
  }
  const body = found.route.method === 'POST' ? readBody(event) : null;
  return proxied(await found.route.answer({ params: found.params, body }, context));
}

/** Turns what a handler throws into the error answer of a REST event, and hides what is not ours from any caller. */
export function errorAnswers(onFault: (error: unknown) => void): middy.MiddlewareObj {
  return {
    onError: (request) => {
      const { error } = request;
      const body = errorBody(error);
      if (ERRORS[body.code].http >= 500) onFault(error);
      if (!isRestEvent(request.event)) {
        if (!(error instanceof StepspawnError)) request.error = new StepspawnError(body.code, body.message);
        return;
      }
      request.response = proxied({
        status: ERRORS[body.code].http,
        body: errorAnswer(error, request.event, request.context),
      });
    },
  };
}

/** The body of an error answer. */
export function errorAnswer(error: unknown, event: RestEvent, context: Context) {
  return {
    error: { ...errorBody(error), request_id: event.requestContext.requestId ?? context.awsRequestId },
  };
}

function proxied({ status, body, headers }: Answer): APIGatewayProxyResult {
  return {
    statusCode: status,
    headers: { 'content-type': 'application/json', ...headers },
    body: compactJson(body),
  };
}

function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const given = path.replace(/\/$/, '').split('/');
  if (wanted.length !== given.length) return null;
  const params: Record<string, string> = {};
  for (const [i, part] of wanted.entries()) {
    const actual = decoded(given[i] ?? '');
    const name = /^\{(.+)\}$/.exec(part)?.[1];
    if (name !== undefined && actual !== '') params[name] = actual;
    else if (part !== actual) return null;
  }
  return params;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** The JSON body of a POST. Throws UnsupportedMediaType, RequestTooLarge and InvalidTask. */
export function readBody(event: RestEvent): JsonValue {
  const type = Object.entries(event.headers ?? {}).find(
    ([name]) => name.toLowerCase() === 'content-type',
  )?.[1];
  if (!/^application\/json\s*(;|$)/i.test(type ?? '')) {
    throw new StepspawnError(
      'UnsupportedMediaType',
      `the body has the type '${type ?? ''}'; send application/json`,
    );
  }
  const bytes = Buffer.from(event.body ?? '', event.isBase64Encoded ? 'base64' : 'utf8');
  if (bytes.length > MAX_BODY_BYTES) {
    throw new StepspawnError(
      'RequestTooLarge',
      `the body is ${bytes.length} bytes long, the limit is ${MAX_BODY_BYTES}`,
    );
  }
  if (bytes.length === 0)
    throw new StepspawnError('InvalidTask', 'the request has no body; send a JSON object');
  try {
    return parseJson(bytes.toString());
  } catch (error) {
    throw new StepspawnError(
      'InvalidTask',
      `the body is not JSON: ${error instanceof Error ? error.message : error}`,
      { cause: error },
    );
  }
}
