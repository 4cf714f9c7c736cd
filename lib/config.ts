/** Settings: environment variables <-> typed values, both directions in this file. */
import * as z from 'zod/mini';
import { StepspawnError } from './errors.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export const Settings = z.object({
  /** where results live: `file:///folder`; the entry's default when absent */
  store_url: z.optional(z.string()),
  /** folder for the private directories of attempts */
  scratch_dir: z.string().check(z.startsWith('/', 'expected an absolute path')),
  /** folder whose content every attempt's HOME begins with */
  home_seed: z.optional(z.string().check(z.startsWith('/', 'expected an absolute path'))),
  /** whether a request may carry its Blueprint; else only registered digests run */
  inline_blueprints: z._default(z.stringbool('expected true or false'), true),
  /** whether this process goes on after it has answered, so that a slow attempt may be answered with 202 */
  keeps_running: z._default(z.stringbool('expected true or false'), false),
  /** function that attempts are handed over to; this process then runs none itself */
  spawn_function: z.optional(z.string()),
  /** state machine that runs are handed over to */
  state_machine_arn: z.optional(z.string()),
  /** user that children run as: numeric `uid:gid`; needs root */
  child_user: z.optional(
    z.pipe(
      z.string().check(z.regex(/^\d+:\d+$/, 'expected numeric uid:gid')),
      z.transform((text) => ({ uid: Number(text.split(':')[0]), gid: Number(text.split(':')[1]) })),
    ),
  ),
  /** the launcher of children; `none`: Node starts them itself; the one that was built with us when absent */
  launcher: z.optional(
    z.pipe(
      z.string().check(z.regex(/^(\/|none$)/, 'expected an absolute path, or none')),
      z.transform((text) => (text === 'none' ? null : text)),
    ),
  ),
  /** secrets that templates may name: JSON object of name to source */
  secrets: z.pipe(z.transform(jsonText), z.record(z.string(), z.string())),
});
export type Settings = z.infer<typeof Settings>;

const VARIABLES = {
  store_url: 'STORE_URL',
  scratch_dir: 'SCRATCH_DIR',
  home_seed: 'HOME_SEED',
  inline_blueprints: 'INLINE_BLUEPRINTS',
  keeps_running: 'KEEPS_RUNNING',
  spawn_function: 'SPAWN_FUNCTION',
  state_machine_arn: 'STATE_MACHINE_ARN',
  child_user: 'CHILD_USER',
  launcher: 'LAUNCHER',
  secrets: 'SECRETS',
} as const;
const DEFAULTS: Partial<Record<keyof typeof VARIABLES, string>> = { scratch_dir: '/tmp', secrets: '{}' };

/** Reads the settings; an empty variable counts as absent. Throws InvalidTask naming each wrong variable. */
export function readSettings(environment: Environment): Settings {
  const given = Object.fromEntries(
    Object.entries(VARIABLES).map(([key, name]) => [
      key,
      environment[name] || DEFAULTS[key as keyof typeof VARIABLES],
    ]),
  );
  const parsed = Settings.safeParse(given);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => {
    const key = issue.path[0] as keyof typeof VARIABLES;
    return `${VARIABLES[key]}=${given[key]}: ${issue.message}`;
  });
  throw new StepspawnError('InvalidTask', `wrong settings: ${issues.join('; ')}`);
}

/** The environment that reads back as these settings. */
export function writeSettings(settings: Partial<Settings>): Record<string, string> {
  const { child_user, secrets } = settings;
  const text: Record<string, string | undefined> = {
    [VARIABLES.store_url]: settings.store_url,
    [VARIABLES.scratch_dir]: settings.scratch_dir,
    [VARIABLES.home_seed]: settings.home_seed,
    [VARIABLES.inline_blueprints]: settings.inline_blueprints?.toString(),
    [VARIABLES.keeps_running]: settings.keeps_running?.toString(),
    [VARIABLES.child_user]: child_user && `${child_user.uid}:${child_user.gid}`,
    [VARIABLES.spawn_function]: settings.spawn_function,
    [VARIABLES.state_machine_arn]: settings.state_machine_arn,
    [VARIABLES.launcher]: settings.launcher === null ? 'none' : settings.launcher,
    [VARIABLES.secrets]: secrets && JSON.stringify(secrets),
  };
  return Object.fromEntries(
    Object.entries(text).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/** What every child's environment begins with: an allow-list, so that nothing else of the host reaches it. */
export function baseEnvironment(environment: Environment): Record<string, string> {
  const path = environment.PATH || '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
  return {
    PATH: path,
    LANG: 'C.UTF-8',
    LC_ALL: 'C.UTF-8',
    ...(environment.TZ ? { TZ: environment.TZ } : {}),
  };
}

function jsonText(value: unknown): unknown {
  try {
    return JSON.parse(String(value));
  } catch {
    return value;
  }
}
