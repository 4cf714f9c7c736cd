/** Settings: environment variables <-> typed values, both directions in this file. */
import * as z from 'zod';
import { StepspawnError } from './errors.ts';

type Environment = Readonly<Record<string, string | undefined>>;

export const Settings = z.object({
  /** where results live: `file:///folder`; the entry's default when absent */
  store_url: z.string().optional(),
  /** folder for the private directories of attempts */
  scratch_dir: z.string().startsWith('/', 'expected an absolute path'),
  /** folder whose content every attempt's HOME begins with */
  home_seed: z.string().startsWith('/', 'expected an absolute path').optional(),
  /** whether a request may carry its Blueprint; else only registered digests run */
  inline_blueprints: z.stringbool().default(true),
  /** secrets that templates may name: JSON object of name to source */
  secrets: z.preprocess(jsonText, z.record(z.string(), z.string())),
});
export type Settings = z.infer<typeof Settings>;

const VARIABLES = {
  store_url: 'STORE_URL',
  scratch_dir: 'SCRATCH_DIR',
  home_seed: 'HOME_SEED',
  inline_blueprints: 'INLINE_BLUEPRINTS',
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
