/** Templates that are valid and yet likely to lose or confuse data: warnings, with what to write instead. */
import type { Issue } from '../errors.ts';
import type { Subject } from './bindings.ts';
import { type Finding, type Template, templateIssues } from './check-templates.ts';
import { warning } from './issues.ts';
import { quote } from './nearest.ts';
import { usesPlaceholder } from './placeholders.ts';

export function lintTemplates(subject: Subject): Generator<Issue> {
  return templateIssues(subject, warning, lints);
}

function* lints(template: Template): Generator<Finding> {
  const argv = Array.from(template.argv ?? [], (text) => text ?? '');
  const script = shellScriptIndex(argv);
  yield* lintArguments(argv, script);
  if (script !== undefined) yield* lintScript(argv, script);
  yield* lintStdin(template.stdin ?? '');
  if (template.output) yield* lintOutput(template.output, argv);
}

const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'dash', 'ash', 'ksh', 'zsh']);

/** Where the script of `sh -c SCRIPT` is, also behind a wrapper such as `env` or `timeout`. */
function shellScriptIndex(argv: readonly string[]): number | undefined {
  const shell = argv.findIndex((text) => SHELLS.has(text.slice(text.lastIndexOf('/') + 1)));
  if (shell === -1) return undefined;
  const option = argv.findIndex((text, i) => i > shell && /^-[a-z]*c$/.test(text));
  return option === -1 || option + 1 >= argv.length ? undefined : option + 1;
}

function* lintArguments(argv: readonly string[], script: number | undefined): Generator<Finding> {
  const lastOption = script ?? argv.indexOf('--');
  for (let i = 1; i < argv.length; i++) {
    const text = argv[i] ?? '';
    const data = dataIn(text);
    if (data === undefined || i === script) continue;
    if (text.startsWith(data) && (lastOption === -1 || i < lastOption)) {
      const message = `${data} that begins with - is read as an option; send it on stdin, or put "--" before it where the program knows that`;
      yield [['argv', i], { code: 'data_as_option', message }];
    } else {
      const message = `${data} as an argument is visible in the process list and fails above 128 KiB; send it on stdin where the program reads that`;
      yield [['argv', i], { code: 'data_in_argv', message }];
    }
  }
}

/** The first placeholder that carries what others wrote. */
function dataIn(text: string): string | undefined {
  if (usesPlaceholder(text, 'prompt')) return '{prompt}';
  return usesPlaceholder(text, 'system') ? '{system}' : undefined;
}

function* lintScript(argv: readonly string[], index: number): Generator<Finding> {
  const script = argv[index] ?? '';
  const path = ['argv', index];
  const data = dataIn(script);
  if (data !== undefined) {
    const message = `${data} becomes part of the script: whoever writes it runs commands; pass it as a further argument and write "$1", or read it from stdin`;
    yield [path, { code: 'data_in_script', message }];
  }
  const bare = script.replace(/\\.|'[^']*'|"[^"]*"/gs, '""');
  if (/[^|>]\|(?!\|)/.test(bare) && !argv.slice(0, index + 1).some((text) => text.includes('pipefail'))) {
    const message =
      'the exit code of a pipe is that of its last command, so that a failure before it is lost; use bash -o pipefail -c';
    yield [path, { code: 'pipe_without_pipefail', message }];
  }
  const redirection = /(?:^|[^>])>\s*(\/dev\/stdout|\/dev\/fd\/1|\/proc\/self\/fd\/1)(?![\w/])/.exec(bare);
  if (redirection) {
    const message = `> ${redirection[1]} empties what was printed before, because stdout is a file; write >&1`;
    yield [path, { code: 'stdout_by_path', message }];
  }
}

function* lintStdin(stdin: string): Generator<Finding> {
  if (!/^\s*(\{\s*"|\[)/.test(stdin)) return;
  const pieces = stdin.replace(/\\./gs, '').split('"');
  const data = dataIn(pieces.filter((_, i) => i % 2 === 1).join('"'));
  if (data === undefined) return;
  const message = `${data} is put into the JSON text as it is, so that a quote or a line break in it breaks the text; build the object in the step's "in" and make stdin "{prompt}"`;
  yield [['stdin'], { code: 'data_in_json_text', message }];
}

const MANY_DOCUMENTS = /(?:^|[=_-])(?:stream-json|jsonl|ndjson|json-?lines|json-seq)$/i;
const ERROR_FIELD = /\/(?:is_?)?(?:err|errors?|failed|failure)$/i;

function* lintOutput(output: NonNullable<Template['output']>, argv: readonly string[]): Generator<Finding> {
  const many = output.format === 'json' && argv.find((text) => MANY_DOCUMENTS.test(text));
  if (many) {
    const message = `${quote(many)} prints a JSON document per line, and format "json" takes exactly one; ask the program for a single document, or use a stream_mode`;
    yield [['output', 'format'], { code: 'several_documents', message }];
  }
  const { ok_from } = output;
  if (ok_from != null && ERROR_FIELD.test(ok_from)) {
    const message = `${quote(ok_from)} names an error: the step would pass where it is true; name a field that is true on success, or "exit_code"`;
    yield [['output', 'ok_from'], { code: 'ok_from_error_field', message }];
  }
}
