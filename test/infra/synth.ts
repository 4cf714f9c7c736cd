/** Synthesis of the app as a fresh clone does it: a copy of the project without bundles, credentials or Docker. */
import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { JsonObject, JsonValue } from '../../lib/json.ts';

const PROJECT = join(import.meta.dirname, '..', '..');
const CLONED = [
  'infra',
  'lib',
  'functions',
  'cli',
  'image',
  'launcher',
  'examples',
  'build.ts',
  'cdk.json',
  '.dockerignore',
];

export interface Clone {
  readonly folder: string;
  /** `cdk synth` with these arguments; what it wrote to stderr, or thrown as the message of an error */
  readonly synth: (out: string, ...args: string[]) => Promise<string>;
  /** replaces the `stages` of cdk.json */
  readonly configure: (stages: JsonObject) => void;
}

export function cloneProject(folder: string): Clone {
  mkdirSync(folder, { recursive: true });
  for (const name of CLONED) cpSync(join(PROJECT, name), join(folder, name), { recursive: true });
  cpSync(join(PROJECT, 'package.json'), join(folder, 'package.json'));
  symlinkSync(join(PROJECT, 'node_modules'), join(folder, 'node_modules'));
  return {
    folder,
    synth: async (out, ...args) => {
      const cdk = join(folder, 'node_modules/aws-cdk/bin/cdk');
      const given = [cdk, 'synth', '--quiet', '--no-notices', '--output', out, ...args];
      const { stderr } = await run(given, folder);
      return stderr;
    },
    configure: (stages) => {
      const file = join(folder, 'cdk.json');
      const cdk = JSON.parse(readFileSync(file, 'utf8'));
      writeFileSync(file, JSON.stringify({ ...cdk, context: { ...cdk.context, stages } }));
    },
  };
}

/** Runs Node with nothing of this process's environment but a PATH that holds Node alone. */
export async function run(args: readonly string[], cwd: string): Promise<{ readonly stderr: string }> {
  const env = {
    PATH: dirname(process.execPath),
    HOME: cwd,
    TMPDIR: dirname(cwd),
    CDK_DISABLE_CLI_TELEMETRY: '1',
  };
  try {
    return await promisify(execFile)(process.execPath, args, { cwd, env });
  } catch (error) {
    throw new Error(String((error as { stderr?: string }).stderr));
  }
}

/** JSON of the template of a stack. */
export function readTemplate(out: string, stack: string): JsonObject {
  return JSON.parse(readFileSync(join(out, `${stack}.template.json`), 'utf8'));
}

export interface State {
  readonly Type: string;
  readonly Next?: string;
  readonly Parameters?: JsonObject;
  readonly TimeoutSeconds?: number;
  readonly ResultSelector?: JsonObject;
  readonly ResultPath?: string | null;
  readonly MaxConcurrency?: number;
  readonly Choices?: readonly JsonObject[];
  readonly Retry?: readonly RetryRule[];
  readonly Catch?: readonly { readonly ErrorEquals: readonly string[]; readonly Next: string }[];
  readonly ItemProcessor?: { readonly States: Readonly<Record<string, State>> };
}

export interface RetryRule {
  readonly ErrorEquals: readonly string[];
  readonly IntervalSeconds: number;
  readonly MaxAttempts: number;
  readonly BackoffRate: number;
  readonly MaxDelaySeconds: number;
}

/** A definition of the States Language, as far as tests look at it. */
export interface Definition {
  readonly StartAt: string;
  readonly TimeoutSeconds?: number;
  readonly States: Readonly<Record<string, State>>;
}

/** Definition of the only state machine of a template, with what only AWS knows put in as `id` or `id.attribute`. */
export function definitionOf(template: JsonObject): Definition {
  const machines = Object.values(template.Resources as JsonObject).filter(
    (resource) => (resource as JsonObject).Type === 'AWS::StepFunctions::StateMachine',
  ) as { Properties: { DefinitionString: JsonValue } }[];
  if (machines.length !== 1) throw new Error(`expected one state machine, found ${machines.length}`);
  return JSON.parse(text(machines[0]!.Properties.DefinitionString));
}

/** A state of a definition; `map/name` is one of a Map's own. */
export function stateOf(definition: Definition, path: string): State {
  const [map, name] = path.split('/') as [string, string?];
  const outer = definition.States[map];
  const found = name === undefined ? outer : outer?.ItemProcessor?.States[name];
  if (!found) throw new Error(`no state ${path}`);
  return found;
}

/** The names of all errors that a state retries. */
export function retriedErrors({ Retry = [] }: State): string[] {
  return Retry.flatMap(({ ErrorEquals }) => ErrorEquals).sort();
}

/** The text that an intrinsic function stands for. */
export function text(value: JsonValue | undefined): string {
  if (typeof value === 'string') return value;
  const [[name, given]] = Object.entries(value as JsonObject) as [[string, JsonValue]];
  if (name === 'Fn::Join')
    return ((given as JsonValue[])[1] as JsonValue[]).map(text).join(String((given as JsonValue[])[0]));
  if (name === 'Fn::GetAtt') return (given as string[]).join('.');
  if (name === 'Ref') return given === 'AWS::Partition' ? 'aws' : String(given);
  return JSON.stringify(value);
}
