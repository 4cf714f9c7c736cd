/** Every limit of an attempt and its default, in one place. */
import type { Limits } from './blueprint/schema.ts';

/** Seconds and bytes; all of them apply at once. */
export interface ResolvedLimits {
  readonly timeout_secs: number;
  /** null: silence is allowed for ever */
  readonly silence_secs: number | null;
  readonly grace_secs: number;
  readonly stdout_bytes: number;
  readonly stderr_bytes: number;
  /** all artifacts together */
  readonly artifact_bytes: number;
}

const GIB = 1024 ** 3;

export const DEFAULT_LIMITS: ResolvedLimits = {
  timeout_secs: 1800,
  silence_secs: null,
  grace_secs: 3,
  stdout_bytes: 2 * GIB,
  stderr_bytes: GIB / 4,
  artifact_bytes: GIB / 4,
};

/** How long one call on a small stored object may take before the store counts as unavailable. */
export const STORE_PATIENCE_MS = 30_000;
/** The end of a stream that a result carries itself. */
export const TAIL_BYTES = 8 * 1024;
/** A value of more bytes of JSON lies in its own object and is referenced. */
export const INLINE_VALUE_BYTES = 200_000;
/** How much of a referenced value the result shows. */
export const PREVIEW_CHARS = 1024;

/** What the platform must still leave after the child's time, for ending it and storing the result. */
const PLATFORM_RESERVE_SECS = 10;
/** Where the platform leaves little, at most this part of it is reserve. */
const RESERVE_SHARE = 0.5;

/** How much later than its limit a holder may still be ending its child and storing the result. */
export function claimMarginMs({ grace_secs }: ResolvedLimits): number {
  return Math.max(10, grace_secs + 5) * 1000;
}

/** The smallest of what request, template and platform allow; the default time where none of them says. */
export function resolveLimits(options: {
  readonly template: Limits | null;
  readonly request_secs: number | undefined;
  /** seconds until the platform ends us */
  readonly platform_secs: number | undefined;
}): ResolvedLimits {
  const declared = options.template ?? {};
  const times = [options.request_secs, declared.timeout_secs].filter((secs) => secs != null);
  const wanted = times.length > 0 ? Math.min(...times) : DEFAULT_LIMITS.timeout_secs;
  const left = Math.max(0, options.platform_secs ?? Number.POSITIVE_INFINITY);
  const timeout_secs = Math.min(wanted, left - Math.min(PLATFORM_RESERVE_SECS, left * RESERVE_SHARE));
  return {
    timeout_secs,
    silence_secs: declared.silence_secs ?? DEFAULT_LIMITS.silence_secs,
    grace_secs: Math.min(declared.grace_secs ?? DEFAULT_LIMITS.grace_secs, (left - timeout_secs) / 2),
    stdout_bytes: declared.stdout_bytes ?? DEFAULT_LIMITS.stdout_bytes,
    stderr_bytes: declared.stderr_bytes ?? DEFAULT_LIMITS.stderr_bytes,
    artifact_bytes: declared.artifact_bytes ?? DEFAULT_LIMITS.artifact_bytes,
  };
}
