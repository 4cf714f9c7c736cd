/** What differs between stages: one record per stage, read from the context of cdk.json, checked key by key. */
import * as z from 'zod';
import { StepspawnError } from '../lib/errors.ts';
import {
  CHILD_TO_FUNCTION_SECS,
  FUNCTION_TO_STATE_SECS,
  type Limit,
  LONGEST_FUNCTION_SECS,
  nestingFault,
  STATE_MARGIN_SECS,
} from './limits.ts';

const LOG_DAYS = [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 3653] as const;
const whole = (min: number, max: number) =>
  z.int(`allowed are whole numbers from ${min} to ${max}`).min(min).max(max);
/** These come into a shell command of the Dockerfile. */
const DEBIAN_PACKAGE = /^[a-z0-9][a-z0-9.+-]*(=[A-Za-z0-9.+:~-]+)?$/;
const NPM_PACKAGE = /^(@[a-z0-9][a-z0-9._-]*\/)?[a-z0-9][a-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9.+-]*)?$/;

/** Every key, its type and what is allowed; `readStage` has the defaults. */
export const StageKeys = z.strictObject({
  /** AWS account and region @default those of the credentials that deploy */
  account: z
    .string()
    .regex(/^\d{12}$/, 'expected 12 digits')
    .optional(),
  region: z
    .string()
    .regex(/^[a-z]{2}(-[a-z]+)+-\d$/, 'expected a region such as eu-central-1')
    .optional(),
  architecture: z.enum(['arm64', 'x86_64']),
  memory_mb: whole(128, 10_240),
  ephemeral_storage_mb: whole(512, 10_240),
  /** how long a child may take; the function gets more, the state that waits for it more again */
  child_timeout_secs: whole(1, LONGEST_FUNCTION_SECS - CHILD_TO_FUNCTION_SECS),
  /** @default child_timeout_secs + 15 */
  function_timeout_secs: whole(1, LONGEST_FUNCTION_SECS).optional(),
  /** @default function_timeout_secs + 30 */
  state_timeout_secs: whole(1, 86_400).optional(),
  /** one execution of the state machine, of which a long run takes several */
  execution_timeout_secs: whole(60, 31_536_000),
  /** attempts at once, reserved for the worker, and again for the stream; null reserves nothing */
  concurrency: whole(1, 10_000).nullable(),
  /** how long results, runs and inputs are kept */
  retention_days: whole(1, 36_500),
  log_retention_days: z.literal(LOG_DAYS),
  /** whether deleting the stack leaves bucket and logs */
  retain_data: z.boolean(),
  node_image: z.string().min(1),
  apt_packages: z.array(z.string().regex(DEBIAN_PACKAGE, 'expected a Debian package, such as jq')),
  npm_packages: z.array(z.string().regex(NPM_PACKAGE, 'expected an npm package, such as name@1.2.3')),
  /** names that templates may use, each with its source */
  secrets: z.record(
    z.string().min(1),
    z.string().regex(/^(secretsmanager|ssm):.+$/, 'expected secretsmanager:ID or ssm:NAME'),
  ),
  /** whether a request may carry its Blueprint; else only registered digests run */
  inline_blueprints: z.boolean(),
  /** whether execution environments are never shared between runs */
  tenant_isolation: z.boolean(),
  api_auth: z.enum(['iam', 'none']),
  /** requests a second, and at once */
  api_rate: whole(1, 10_000),
  api_burst: whole(1, 5000),
  /** who is told about alarms */
  alarm_email: z.email().optional(),
  alarm_topic_arn: z
    .string()
    .regex(/^arn:[\w-]+:sns:[\w-]+:\d{12}:.+$/, 'expected the ARN of an SNS topic')
    .optional(),
});

const StageConfig = StageKeys.transform((given) => {
  const function_timeout_secs =
    given.function_timeout_secs ?? given.child_timeout_secs + CHILD_TO_FUNCTION_SECS;
  const state_timeout_secs = given.state_timeout_secs ?? function_timeout_secs + STATE_MARGIN_SECS;
  return { ...given, function_timeout_secs, state_timeout_secs };
}).superRefine((config, { addIssue }) => {
  const limit = (name: keyof typeof config & `${string}_secs`): Limit => ({ name, secs: config[name] });
  const child = limit('child_timeout_secs');
  const fn = limit('function_timeout_secs');
  const state = limit('state_timeout_secs');
  const faults = [
    nestingFault(child, fn, CHILD_TO_FUNCTION_SECS),
    nestingFault(fn, state, FUNCTION_TO_STATE_SECS),
    nestingFault(state, limit('execution_timeout_secs'), 1),
  ];
  for (const message of faults) if (message !== null) addIssue({ code: 'custom', message, path: [] });
});
export type StageConfig = z.infer<typeof StageConfig> & { readonly stage: StageName };

const COMMON = {
  architecture: 'x86_64',
  memory_mb: 2048,
  ephemeral_storage_mb: 2048,
  child_timeout_secs: 870,
  execution_timeout_secs: 86_400,
  node_image: 'node:24-trixie-slim',
  apt_packages: [],
  npm_packages: [],
  secrets: {},
  tenant_isolation: false,
  api_auth: 'iam',
  api_rate: 50,
  api_burst: 100,
} as const;

const DEFAULTS = {
  dev: {
    ...COMMON,
    concurrency: null,
    retention_days: 14,
    log_retention_days: 14,
    retain_data: false,
    inline_blueprints: true,
  },
  prod: {
    ...COMMON,
    concurrency: 100,
    retention_days: 365,
    log_retention_days: 180,
    retain_data: true,
    inline_blueprints: false,
  },
} as const;
export type StageName = keyof typeof DEFAULTS;

/**
 * The configuration of a stage: its defaults, and over them what `given` says. Throws InvalidTask naming the stage,
 * each wrong key, its value and what is allowed.
 */
export function readStage(stage: unknown, given: unknown = {}): StageConfig {
  const names = Object.keys(DEFAULTS).join(' or -c stage=');
  if (stage !== 'dev' && stage !== 'prod')
    throw new StepspawnError('InvalidTask', `stage '${stage ?? ''}' is not known; give -c stage=${names}`);
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw new StepspawnError('InvalidTask', `stage '${stage}': expected an object of keys in cdk.json`);
  const whole: Record<string, unknown> = { ...DEFAULTS[stage], ...given };
  const parsed = StageConfig.safeParse(whole);
  if (parsed.success) return { ...parsed.data, stage };
  const messages = parsed.error.issues.map(({ path, message }) => {
    const key = path.join('.');
    const value = path.reduce<unknown>((at, name) => (at as Record<PropertyKey, unknown>)?.[name], whole);
    return key === '' ? message : `${key}=${JSON.stringify(value)}: ${message}`;
  });
  throw new StepspawnError('InvalidTask', `stage '${stage}': ${messages.join('; ')}`);
}
