/** What the gateway answers itself, in the shape of our own errors. */
import { ResponseType, type RestApi } from 'aws-cdk-lib/aws-apigateway';
import { ERRORS, type ErrorCode } from '../lib/errors.ts';

/** Our functions refuse larger bodies; far larger ones do not reach them. */
const MAX_BODY_BYTES = 5_000_000;

interface GatewayAnswer {
  readonly type: ResponseType;
  readonly code: ErrorCode | 'TooManyRequests';
  readonly message: string;
  /** null keeps the gateway's own; otherwise it is that of the code */
  readonly status?: null;
}

const NOT_ALLOWED = 'the caller may not do this: no permission, or a signature that is wrong or too old';
const ANSWERS: Readonly<Record<string, GatewayAnswer>> = {
  TooLarge: {
    type: ResponseType.REQUEST_TOO_LARGE,
    code: 'RequestTooLarge',
    message: `the request is too large, the limit is ${MAX_BODY_BYTES} bytes`,
  },
  NoRoute: {
    type: ResponseType.MISSING_AUTHENTICATION_TOKEN,
    code: 'NotFound',
    message: 'no such route and method, or the request is not signed (AWS Signature Version 4)',
  },
  NoResource: { type: ResponseType.RESOURCE_NOT_FOUND, code: 'NotFound', message: 'no such route' },
  AccessDenied: { type: ResponseType.ACCESS_DENIED, code: 'Forbidden', message: NOT_ALLOWED },
  BadSignature: { type: ResponseType.INVALID_SIGNATURE, code: 'Forbidden', message: NOT_ALLOWED },
  ExpiredToken: { type: ResponseType.EXPIRED_TOKEN, code: 'Forbidden', message: NOT_ALLOWED },
  Unauthorized: { type: ResponseType.UNAUTHORIZED, code: 'Forbidden', message: NOT_ALLOWED },
  Throttled: {
    type: ResponseType.THROTTLED,
    code: 'TooManyRequests',
    message: 'too many requests; try again later',
  },
  BadBody: {
    type: ResponseType.BAD_REQUEST_BODY,
    code: 'InvalidTask',
    message: 'the body is not JSON of the shape that this route takes',
  },
  BadParameters: {
    type: ResponseType.BAD_REQUEST_PARAMETERS,
    code: 'InvalidTask',
    message: 'a parameter of the request is missing or wrong',
  },
  BadMediaType: {
    type: ResponseType.UNSUPPORTED_MEDIA_TYPE,
    code: 'UnsupportedMediaType',
    message: 'the body is not application/json',
  },
  Other4xx: {
    type: ResponseType.DEFAULT_4XX,
    code: 'InvalidTask',
    message: 'the request cannot be taken',
    status: null,
  },
  Other5xx: {
    type: ResponseType.DEFAULT_5XX,
    code: 'InternalError',
    message: 'internal error',
    status: null,
  },
};

/** Gives all of them to an API. */
export function addGatewayResponses(api: RestApi): void {
  for (const [id, { type, code, message, status }] of Object.entries(ANSWERS)) {
    const own = code === 'TooManyRequests' ? 429 : ERRORS[code].http;
    const body = JSON.stringify({ error: { code, message, request_id: '$context.requestId' } });
    api.addGatewayResponse(id, {
      type,
      ...(status !== null && { statusCode: String(own) }),
      templates: { 'application/json': body },
    });
  }
}
