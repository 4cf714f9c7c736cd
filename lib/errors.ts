/** The table of error codes, the one error class, and the shape of a single finding. */

/** Where a finding stands in the source text; both count from 1. */
export interface SourcePosition {
  readonly line: number;
  readonly column: number;
}

/** One finding about a document or a request: data, so that it can be printed, diffed and stored. */
export interface Issue {
  /** snake_case, stable: `unknown_placeholder`, `bad_pointer`, `unknown_field` … */
  readonly code: string;
  /** absolute JSON Pointer into the document or request; `''` is the whole of it */
  readonly path: string;
  readonly message: string;
  readonly severity: 'error' | 'warning';
  readonly line?: number;
  readonly column?: number;
}

interface ErrorTraits {
  readonly http: number;
  /** whether sending the same request again can help */
  readonly retryable: boolean;
  /** whether the attempt settles with this error: stored as `failed` and thrown again on replay */
  readonly stored: boolean;
  readonly meaning: string;
}

/** Every code that is thrown: the attempt produced no result. The key is the error's `name`. */
export const ERRORS = {
  InvalidBlueprint: {
    http: 422,
    retryable: false,
    stored: true,
    meaning: 'the document is not readable, not of the schema, or fails a check; carries issues',
  },
  InvalidTask: {
    http: 400,
    retryable: false,
    stored: true,
    meaning: 'the request is malformed, names an unknown agent or a bad task id',
  },
  PlaceholderUnset: {
    http: 422,
    retryable: false,
    stored: true,
    meaning: 'placeholders or prompt variables are used that have no source; all of them as issues',
  },
  SpawnFailed: {
    http: 422,
    retryable: false,
    stored: true,
    meaning: 'the program could not be started; which part and why as issues',
  },
  AttemptConflict: {
    http: 409,
    retryable: false,
    stored: false,
    meaning: 'this task id and attempt, or run id, was already used with a different request',
  },
  AttemptInProgress: {
    http: 409,
    retryable: true,
    stored: false,
    meaning: 'another invocation holds this attempt',
  },
  RetryDue: {
    http: 409,
    retryable: true,
    stored: false,
    meaning:
      "the template's rule asks for a new attempt, for which it is too early; sending the same again runs it",
  },
  Forbidden: {
    http: 403,
    retryable: false,
    stored: false,
    meaning: 'the caller may not use this server: wrong host, an Origin, or no valid token',
  },
  NotFound: {
    http: 404,
    retryable: false,
    stored: false,
    meaning: 'no such task, attempt, run or registered Blueprint',
  },
  RequestTooLarge: { http: 413, retryable: false, stored: false, meaning: 'the request is over the limit' },
  UnsupportedMediaType: {
    http: 415,
    retryable: false,
    stored: false,
    meaning: 'the body is not application/json',
  },
  MethodNotAllowed: {
    http: 405,
    retryable: false,
    stored: false,
    meaning: 'the path exists, but not with this method',
  },
  StoreUnavailable: {
    http: 503,
    retryable: true,
    stored: false,
    meaning: 'the store is unreachable, throttled, full, or refuses access',
  },
  InternalError: { http: 500, retryable: true, stored: false, meaning: 'our fault' },
} as const satisfies Record<string, ErrorTraits>;

export type ErrorCode = keyof typeof ERRORS;

/** The one error class. `name` equals `code`, so that Step Functions and Lambda can match it. */
export class StepspawnError extends Error {
  readonly code: ErrorCode;
  readonly issues: readonly Issue[];

  constructor(code: ErrorCode, message: string, options?: { issues?: readonly Issue[]; cause?: unknown }) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.name = code;
    this.issues = options?.issues ?? [];
  }
}

/** The error as it crosses a border: `{code, message, issues?}`. */
export interface ErrorBody {
  readonly code: ErrorCode;
  readonly message: string;
  readonly issues?: readonly Issue[];
}

/** What a caller may see of any thrown value; an error of ours whole, everything else as "internal error". */
export function errorBody(error: unknown): ErrorBody {
  if (!(error instanceof StepspawnError)) return { code: 'InternalError', message: 'internal error' };
  const { code, message, issues } = error;
  return issues.length > 0 ? { code, message, issues } : { code, message };
}

/** Throws one error that carries all issues and whose message lists the first of them. */
export function failWith(code: ErrorCode, issues: readonly Issue[]): never {
  const shown = issues
    .slice(0, 5)
    .map((issue) => (issue.path === '' ? issue.message : `${issue.path}: ${issue.message}`));
  const more = issues.length > shown.length ? `; and ${issues.length - shown.length} more` : '';
  throw new StepspawnError(code, shown.join('; ') + more, { issues });
}
