#!/usr/bin/env node
/** The terminal: parses arguments, calls lib, prints JSON on stdout and everything else on stderr. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { MAX_SECONDS, RUN_ID, TASK_ID } from '../lib/task.ts';
import { EXIT, fail, UsageError } from './output.ts';

const program = new Command('stepspawn')
  .description('Runs any headless command-line program as one step of a workflow, described as data.')
  .version('0.1.0')
  .exitOverride()
  .showHelpAfterError('(--help shows what is expected)')
  .addHelpText(
    'after',
    `
Exit codes: 0 passed, valid or done · 1 the step or run did not pass · 2 refused before anything ran ·
3 store unavailable or internal error · 64 wrong usage · 130 interrupted`,
  );

const payload = (command: Command): Command =>
  command
    .argument('<file>', 'Blueprint: JSON (comments allowed) or YAML')
    .requiredOption('--agent <name>', 'agent to run')
    .addOption(new Option('--prompt <text>', 'directive as text').conflicts(['in', 'inFile']))
    .addOption(new Option('--in <json>', 'directive as JSON').conflicts(['prompt', 'inFile']))
    .addOption(
      new Option(
        '--in-file <path>',
        'directive from a file: JSON when the name ends in .json, else text',
      ).conflicts(['prompt', 'in']),
    )
    .option('--task-id <id>', 'task id; made when absent', matching(TASK_ID))
    .option('--attempt <n>', 'attempt number, 1 to 9999', wholeFrom(1, 9999), 1)
    .option('--work-dir <dir>', 'what {work_dir} stands for; the child runs there');

const store = (command: Command): Command =>
  command.option(
    '--store <url>',
    'where results live: file:///folder or s3://bucket/prefix (default: .stepspawn in this directory)',
    storeUrl,
  );

program
  .command('validate')
  .description('check a Blueprint and list everything that is wrong with it')
  .argument('<file>', 'Blueprint: JSON (comments allowed) or YAML')
  .option('--json', 'print {"ok", "issues"} on stdout')
  .action(async (file, options) => (await import('./validate.ts')).validateCommand(file, options));

payload(program.command('render'))
  .description('print the command that an agent would be started with; starts nothing')
  .action(async (file, options) => (await import('./render.ts')).renderCommandLine(file, options));

const secrets = (command: Command): Command =>
  command.option(
    '--secret <name=source>',
    'map a secret that templates name: NAME=env:VARIABLE or NAME=file:PATH; may be given again',
    addSecret,
    {},
  );

program
  .command('test')
  .description('test templates without their programs: recorded output in, expected result out')
  .argument('<file>', 'Blueprint: JSON (comments allowed) or YAML')
  .option('--fixtures <path>', 'the tests (default: x.test.json beside x.json)')
  .addHelpText(
    'after',
    `
The fixtures are {"tests": [{"name", "agent"?, "request"?: {"in"?, "context"?, "task_id"?, "attempt"?},
"command"?: what must be rendered, "error"?: the code that rendering must throw, "recorded"?: {"stdout" or "stdout_file",
"stderr" or "stderr_file", "exit_code", "signal", "ended_for"}, "result"?: what it must come to}]}.`,
  )
  .action(async (file, options) => (await import('./test.ts')).testCommand(file, options));

secrets(store(payload(program.command('spawn'))))
  .description('run one attempt of one agent and print its result')
  .option('--timeout-secs <n>', 'time limit in seconds', seconds)
  .action(async (file, options) => (await import('./spawn.ts')).spawnCommand(file, options));

secrets(store(program.command('run')))
  .description('run the flow of a Blueprint to its end and print the final context')
  .argument('<file>', 'Blueprint: JSON (comments allowed) or YAML')
  .option('--ctx <json>', 'initial context, merged over default_init_ctx')
  .option('--work-dir <dir>', 'what {work_dir} stands for; children run there')
  .option(
    '--run-id <id>',
    'run id; made when absent; the id of an unfinished run goes on with it',
    matching(RUN_ID),
  )
  .option('--retry', 'give the steps that ended a failed run a new attempt')
  .option('--ttl-secs <n>', 'time limit of the run in seconds', seconds)
  .option('--max-concurrency <n>', 'steps that run at once', wholeFrom(1, 10_000), 8)
  .action(async (file, options) => (await import('./run.ts')).runCommand(file, options));

store(program.command('result'))
  .description('print the stored result of an attempt')
  .argument('<task-id>', 'task id', matching(TASK_ID))
  .argument('[attempt]', 'attempt number; the newest when absent', wholeFrom(1, 9999))
  .action(async (taskId, attempt, options) =>
    (await import('./result.ts')).resultCommand(taskId, attempt, options),
  );

secrets(store(program.command('serve')))
  .description('serve the HTTP API on this machine, over a folder store')
  .option('--port <n>', 'port; 0 takes a free one', wholeFrom(0, 65_535), 8080)
  .option('--host <address>', 'address to listen on; other than loopback needs --token-file', '127.0.0.1')
  .option('--token-file <path>', 'file with the token that every caller must send as Authorization: Bearer')
  .option('--child-user <uid:gid>', 'run children as this user; needs root', childUser)
  .action(async (options) => (await import('./serve.ts')).serveCommand(options));

store(program.command('cancel'))
  .description('end what runs under an id: a run, or one attempt of a task')
  .argument('<id>', 'run id, or task id')
  .argument('[attempt]', 'attempt number, for a task', wholeFrom(1, 9999))
  .action(async (id, attempt, options) => (await import('./cancel.ts')).cancelCommand(id, attempt, options));

program
  .command('schema')
  .description('print the JSON Schema of a Blueprint')
  .action(async () => (await import('./schema.ts')).schemaCommand());

// a reader that went away (`| head`) is not a fault: what runs is brought to its end, unseen
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
  else if (!(error instanceof UsageError)) fail(error);
  else {
    process.stderr.write(`stepspawn: ${error.message}\n`);
    process.exitCode = EXIT.usage;
  }
}

function matching(pattern: RegExp): (text: string) => string {
  return (text) => {
    if (!pattern.test(text)) throw new InvalidArgumentError(`expected ${pattern.source}, got '${text}'`);
    return text;
  };
}

function wholeFrom(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < min || value > max)
      throw new InvalidArgumentError(`expected a whole number from ${min} to ${max}, got '${text}'`);
    return value;
  };
}

function addSecret(text: string, given: Record<string, string>): Record<string, string> {
  const [, name, source] = /^([^=]+)=((?:env|file):.+)$/s.exec(text) ?? [];
  if (name === undefined || source === undefined)
    throw new InvalidArgumentError(`expected NAME=env:VARIABLE or NAME=file:PATH, got '${text}'`);
  return { ...given, [name]: source };
}

function storeUrl(text: string): string {
  if (/^(file:\/\/\/|s3:\/\/)./.test(text)) return text;
  throw new InvalidArgumentError(`expected file:///folder or s3://bucket/prefix, got '${text}'`);
}

function childUser(text: string): string {
  if (!/^\d+:\d+$/.test(text)) throw new InvalidArgumentError(`expected numeric uid:gid, got '${text}'`);
  if (process.getuid?.() !== 0) throw new InvalidArgumentError('only root may run children as another user');
  return text;
}

function seconds(text: string): number {
  const value = Number(text);
  if (!/^\d+(\.\d+)?$/.test(text) || value <= 0 || value > MAX_SECONDS)
    throw new InvalidArgumentError(
      `expected a number of seconds above 0, at most ${MAX_SECONDS}, got '${text}'`,
    );
  return value;
}
