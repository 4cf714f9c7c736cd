/** What became of a dispatched step, and the error that a flow makes of it. */
import { canonicalJson, type JsonValue } from '../json.ts';
import type { FlowError } from './failure.ts';
import { measure } from './measure.ts';

/** `completed_at` is RFC 3339 in one precision and zone, so that it compares as text. */
export type StepResult = (
  | {
      readonly status: 'passed';
      readonly value: JsonValue;
      /** false: a string that holds JSON stays a string */
      readonly fold?: boolean;
    }
  | { readonly status: 'blocked'; readonly value: JsonValue }
  | { readonly status: 'failed'; readonly message: string }
) & { readonly completed_at: string };

/** The error of a step that did not pass; its text names the ref twice, as the reference does. */
export function stepError(
  ref: string,
  position: string,
  result: Exclude<StepResult, { status: 'passed' }>,
): FlowError {
  const wrapped = `dispatcher error for ref '${ref}': dispatcher error for ref '${ref}': `;
  const base = { failed_step: ref, positions: [position] };
  if (result.status === 'failed')
    return { ...base, message: `${wrapped}dispatch_attempt: dispatch failed: ${result.message}` };
  const { size } = measure(result.value);
  const quoted = size > MAX_QUOTED ? `a value of about ${size} characters` : canonicalJson(result.value);
  return { ...base, message: `${wrapped}blocked: ${quoted}`, verdict_value: result.value };
}

/** Characters of JSON that an error message quotes. */
const MAX_QUOTED = 64 * 1024 * 1024;
