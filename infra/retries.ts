/** Retry and Catch of every state that calls our functions: from the error table, and what AWS itself throws. */
import { Duration } from 'aws-cdk-lib';
import { JitterType, type RetryProps } from 'aws-cdk-lib/aws-stepfunctions';
import { ERRORS } from '../lib/errors.ts';

const HELD = 'AttemptInProgress';
const DUE = 'RetryDue';
const THROTTLED = 'Lambda.TooManyRequestsException';
const PLATFORM = [
  'Lambda.ServiceException',
  'Lambda.AWSLambdaException',
  'Lambda.SdkClientException',
  'Lambda.Unknown',
  'Lambda.ClientExecutionTimeoutException',
  'Sandbox.Timedout',
  'Runtime.ExitError',
  'States.Timeout',
];

const names = Object.entries(ERRORS);

/** Codes of ours for which sending the same request again can help. */
const RETRYABLE = names.filter(([, { retryable }]) => retryable).map(([code]) => code);
/** Codes with which an attempt settles: stored, and the same again on replay. */
export const SETTLING = names.filter(([, { stored }]) => stored).map(([code]) => code);

/** In a run the plan dispatches again what was given up. */
const DUE_ATTEMPTS = 8;
/** Where nobody does: for some 16 hours, each minute. */
export const DUE_ATTEMPTS_ALONE = 1000;

const HELD_WAITS = { interval: 5, backoffRate: 1.5, longest: 60 };
/** A claim ends 10 s after its child's limit, which lies within the function's time. */
const CLAIM_MARGIN_SECS = 30;

/**
 * Retry rules of a state that calls a function which may take `functionSecs`: an attempt that is held elsewhere is
 * asked for until after its claim has ended.
 */
export function retryRules(functionSecs: number, dueAttempts = DUE_ATTEMPTS): RetryProps[] {
  return [
    {
      errors: [HELD],
      interval: Duration.seconds(HELD_WAITS.interval),
      backoffRate: HELD_WAITS.backoffRate,
      maxDelay: Duration.seconds(HELD_WAITS.longest),
      maxAttempts: waitsFor(functionSecs + CLAIM_MARGIN_SECS),
      jitterStrategy: JitterType.NONE,
    },
    {
      // the result tells how long it is to be waited; the function runs the new attempt once that is over
      errors: [DUE],
      interval: Duration.seconds(2),
      backoffRate: 2,
      maxDelay: Duration.seconds(60),
      maxAttempts: dueAttempts,
      jitterStrategy: JitterType.NONE,
    },
    {
      errors: [THROTTLED],
      interval: Duration.seconds(2),
      backoffRate: 2,
      maxDelay: Duration.seconds(60),
      maxAttempts: 10,
      jitterStrategy: JitterType.FULL,
    },
    {
      errors: [...RETRYABLE.filter((code) => code !== HELD && code !== DUE), ...PLATFORM],
      interval: Duration.seconds(2),
      backoffRate: 2,
      maxDelay: Duration.seconds(30),
      maxAttempts: 5,
      jitterStrategy: JitterType.FULL,
    },
  ];
}

/** How many waits of the rule for held attempts last longer than `secs` together. */
function waitsFor(secs: number): number {
  let waits = 0;
  for (let waited = 0, next = HELD_WAITS.interval; waited <= secs; waits++) {
    waited += Math.min(next, HELD_WAITS.longest);
    next *= HELD_WAITS.backoffRate;
  }
  return waits;
}

/** The most retries that one state can make under these rules. */
export function mostRetries(rules: readonly RetryProps[]): number {
  return rules.reduce((sum, { maxAttempts = 0 }) => sum + maxAttempts, 0);
}
