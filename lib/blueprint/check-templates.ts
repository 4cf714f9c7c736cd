/** Checks of `subprocesses`, used or not. */
import type { Issue } from '../errors.ts';
import { toPointer } from '../json.ts';
import type { Subject } from './bindings.ts';
import { checkArtifacts, checkFiles } from './check-files.ts';
import { checkOutput, checkRetry } from './check-output.ts';
import { argumentProblems, isSoundArgument, type Problem, templateProblems } from './check-text.ts';
import type { Finding, Template } from './finding.ts';
import { error } from './issues.ts';
import { quote } from './nearest.ts';
import { isValidTemplate } from './placeholders.ts';

export function checkTemplates(subject: Subject): Generator<Issue> {
  return templateIssues(subject, error, findings);
}

/** What is found in each template, as issues that name the template and the agents that use it. */
export function* templateIssues(
  { blueprint, usedBy }: Subject,
  issue: (code: string, path: string, message: string) => Issue,
  find: (template: Template) => Iterable<Finding>,
): Generator<Issue> {
  const templates = blueprint.subprocesses ?? [];
  for (let i = 0; i < templates.length; i++) {
    const template = templates[i];
    if (!template) continue;
    for (const [path, { code, message }] of find(template)) {
      const subject = `template ${quote(template.name ?? '')} ${label(path)}`;
      yield issue(code, `/subprocesses/${i}${toPointer(path)}`, `${subject}: ${message}${usedBy(i)}`);
    }
  }
}

function label([field, ...rest]: readonly PropertyKey[]): string {
  const [inner] = rest;
  if (typeof inner === 'number') return `${String(field)}[${inner}]`;
  if (field === 'env' || field === 'secrets' || field === 'files') return `${field}[${quote(String(inner))}]`;
  return [field, ...rest].join('.');
}

function* findings(template: Template): Generator<Finding> {
  yield* checkArgv(template);
  const { stdin, env, cwd, secrets, output, files, artifacts } = template;
  if (stdin != null && !isValidTemplate(stdin)) yield* at(['stdin'], templateProblems(stdin));
  if (env) yield* checkEnv(env);
  if (cwd != null && !isSoundArgument(cwd)) yield* at(['cwd'], argumentProblems(cwd));
  if (secrets) yield* checkSecrets(secrets, template);
  if (output) yield* checkOutput(output, template);
  if (template.retry) yield* checkRetry(template.retry, output ?? {});
  if (files) yield* checkFiles(files);
  if (artifacts) yield* checkArtifacts(artifacts);
}

function* at(path: readonly PropertyKey[], problems: Iterable<Problem>): Generator<Finding> {
  for (const problem of problems) yield [path, problem];
}

function* checkArgv({ argv }: Template): Generator<Finding> {
  if (!argv) return;
  if (argv.length === 0 || argv[0] === '') {
    const path = argv.length === 0 ? ['argv'] : ['argv', 0];
    yield [
      path,
      { code: 'empty_argv', message: 'no program is named; the first element of argv must be one' },
    ];
  }
  for (let i = 0; i < argv.length; i++) {
    const text = argv[i];
    if (text !== undefined && !isSoundArgument(text)) yield* at(['argv', i], argumentProblems(text));
  }
}

function* checkEnv(env: NonNullable<Template['env']>): Generator<Finding> {
  for (const name of Object.keys(env)) {
    const problem = nameProblem(name);
    if (problem) yield [['env', name], problem];
    const text = env[name];
    if (text !== undefined && !isSoundArgument(text)) yield* at(['env', name], argumentProblems(text));
  }
}

function* checkSecrets(secrets: NonNullable<Template['secrets']>, { env }: Template): Generator<Finding> {
  for (const name of Object.keys(secrets)) {
    const path = ['secrets', name];
    const problem = nameProblem(name);
    if (problem) yield [path, problem];
    if (env && Object.hasOwn(env, name)) {
      yield [
        path,
        { code: 'duplicate_name', message: 'duplicate name: env sets it too; keep one of the two' },
      ];
    }
    if (secrets[name] === '') {
      yield [
        path,
        { code: 'invalid_value', message: 'empty; give the name of a secret that the operator maps' },
      ];
    }
  }
}

function nameProblem(name: string): Problem | undefined {
  if (name === '' || /[=\0]|\{[a-z_]+\}/.test(name)) {
    const message =
      'a name must not be empty, hold = or NUL, or look like a placeholder: names are not templates';
    return { code: 'bad_env_name', message };
  }
  if (!name.startsWith('MSE_')) return undefined;
  return { code: 'reserved_env', message: 'the engine sets the names beginning with MSE_; choose another' };
}
