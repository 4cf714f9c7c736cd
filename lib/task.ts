/** The shapes that cross every border: the request for one attempt, and its result, which is stored once. */
import * as z from 'zod/mini';
import type { ErrorBody } from './errors.ts';
import type { JsonObject, JsonValue } from './json.ts';
import { isObject, toDouble } from './json.ts';

/** Any JSON value, numbers kept as written. */
export const Json = z.custom<JsonValue>((value) => value !== undefined, 'expected a JSON value');
/** A JSON object with any members. */
export const AnyObject = z.custom<JsonObject>((value) => isObject(value), 'expected an object');
/** A number in any spelling (`2`, `2.0`, `2e0`), read as a double. */
export const Double = z.pipe(
  z.transform((value) => toDouble(value) ?? value),
  z.number(),
);
/** A whole number in any spelling. */
export const Whole = z.pipe(
  z.transform((value) => toDouble(value) ?? value),
  z.int(),
);

export const TASK_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
export const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const DIGEST = /^sha256:[0-9a-f]{64}$/;

export const TaskId = z.string().check(z.regex(TASK_ID, `expected a task id of the form ${TASK_ID.source}`));
export const MAX_ATTEMPT = 9999;
/** An exit code: 0 to 255. */
export const ExitCode = z.pipe(Whole, z.int().check(z.minimum(0), z.maximum(255)));

export const Attempt = z.pipe(Whole, z.int().check(z.minimum(1), z.maximum(MAX_ATTEMPT)));
/** the longest that a timer of this platform can be set to, in seconds: some 24 days */
export const MAX_SECONDS = 2_147_483;
/** A time limit; may be fractional. */
export const Seconds = z.pipe(
  Double,
  z.number().check(z.positive(), z.maximum(MAX_SECONDS, `expected at most ${MAX_SECONDS} seconds`)),
);

/** A value that lies in the store: its key, and the SHA-256 of its bytes, which is checked. */
export const InputRef = z.strictObject({
  key: z.string().check(z.minLength(1)),
  sha256: z.string().check(z.regex(/^[0-9a-f]{64}$/, 'expected 64 lower-case hex digits')),
});
export type InputRef = z.infer<typeof InputRef>;

/** The request for one attempt of one task; `blueprint` is the document or `{digest}` of a registered one. */
export const Task = z.strictObject({
  task_id: TaskId,
  attempt: z._default(Attempt, 1),
  /** where the row of attempts began to which a rule for new ones counts this; 1 when absent */
  first_attempt: z.optional(Attempt),
  agent: z.string(),
  blueprint: Json,
  in: z.optional(Json),
  in_ref: z.optional(InputRef),
  context: z.optional(AnyObject),
  timeout_secs: z.optional(Seconds),
});
export type Task = z.infer<typeof Task>;

/** Why a result is not ok. When several apply, the earliest cause wins. */
export const REASONS = [
  'exit_nonzero',
  'signalled',
  'timed_out',
  'cancelled',
  'output_limit',
  'silent',
  'stdout_not_json',
  'result_missing',
  'ok_missing',
  'ok_not_true',
  'no_final',
  'stream_broken',
  'artifact_missing',
] as const;
export type Reason = (typeof REASONS)[number];

/** How the process ended; exactly one of the two is set, both null when it never ended by itself. */
export interface ExitStatus {
  readonly code: number | null;
  /** signal name, such as `SIGKILL` */
  readonly signal: string | null;
}

/** Tokens; those of a cache where the program tells them, whether they are part of the input or beside it. */
export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly total_tokens: number;
  readonly cache_read_tokens?: number;
  readonly cache_write_tokens?: number;
}

/** Observations about the run; they never change value or ok. */
export interface Stats {
  readonly worker_kind: 'subprocess';
  readonly model?: string;
  readonly usage?: Usage;
  readonly num_turns?: number;
  /** US dollars, as the program tells */
  readonly cost_usd?: number;
  readonly adapter_data: JsonObject;
}

/** What an Exit means: the verdict, the value, and why. */
export interface Outcome {
  readonly ok: boolean;
  readonly value: JsonValue;
  readonly reason: Reason | null;
  /** for a person: what went wrong and what to do; null when ok */
  readonly message: string | null;
  readonly stats: Stats;
  readonly warnings: readonly string[];
  /** what the program says went wrong, where its template tells where that stands */
  readonly reported_error?: ReportedError;
  /** whether the template asks for a new attempt */
  readonly retry?: boolean;
}

/** An error in the program's own words. */
export interface ReportedError {
  readonly message: string | null;
  readonly class: string | null;
}

export interface NextAttempt {
  readonly attempt: number;
  /** RFC 3339 */
  readonly not_before: string;
}

/** A stream of the child as the result tells it; `key` names the whole of it where it is more than the tail. */
export interface StreamSummary {
  readonly size_bytes: number;
  /** the last 8 KiB at most, as text */
  readonly tail: string;
  readonly key: string | null;
}

export interface ValueRef {
  readonly key: string;
  readonly size_bytes: number;
  readonly sha256: string;
}

/** A file that the child left and that is stored whole. */
export interface Artifact {
  /** its path below the directory of the child, or `~/…` below HOME */
  readonly name: string;
  readonly key: string;
  readonly size_bytes: number;
  readonly sha256: string;
  /** by the ending of its name */
  readonly media_type: string;
}

/** The settled attempt as it is stored, once. Times are RFC 3339 in UTC, `duration_ms` whole milliseconds. */
export interface TaskResult {
  readonly task_id: string;
  readonly attempt: number;
  readonly agent: string;
  readonly blueprint_digest: string;
  readonly request_digest: string;
  /** passed · blocked: ran and is not ok · failed: could not be run; `error` says why */
  readonly status: 'passed' | 'blocked' | 'failed';
  readonly ok: boolean;
  readonly reason: Reason | null;
  readonly message: string | null;
  /** absent when `value_ref` is given, or when failed */
  readonly value?: JsonValue;
  readonly value_ref?: ValueRef;
  readonly preview?: string;
  readonly error?: ErrorBody;
  readonly exit: ExitStatus;
  readonly stats: Stats;
  readonly reported_error?: ReportedError;
  /** the new attempt that the template's rule asks for */
  readonly retry?: NextAttempt;
  readonly stdout: StreamSummary;
  readonly stderr: StreamSummary;
  /** sorted by name; only where the template declares artifacts and its child ran */
  readonly artifacts?: readonly Artifact[];
  /** in answers: the list of artifacts as an object of its own, where it is too large */
  readonly artifacts_ref?: ValueRef;
  readonly warnings: readonly string[];
  readonly started_at: string;
  readonly completed_at: string;
  readonly duration_ms: number;
  readonly replayed: boolean;
}
