/** Templates that are valid and yet likely to lose or confuse data: warnings, with what to write instead. */
import type { Issue } from '../errors.ts';
import type { Subject } from './bindings.ts';
import { templateIssues } from './check-templates.ts';
import type { Finding, Template } from './finding.ts';
import { warning } from './issues.ts';
import { quote } from './nearest.ts';
import { PLACEHOLDERS, usesPlaceholder } from './placeholders.ts';

export function lintTemplates(subject: Subject): Generator<Issue> {
  return templateIssues(subject, warning, lints);
}

function* lints(template: Template): Generator<Finding> {
  const argv = Array.from(template.argv ?? [], (text) => text ?? '');
  const script = shellScriptIndex(argv);
  yield* lintArguments(argv, script);
  if (script !== undefined) yield* lintScript(argv, script);
  yield* lintJsonText(['stdin'], template.stdin ?? '', 'make stdin');
  for (const name of Object.keys(template.files ?? {}))
    yield* lintJsonText(['files', name], template.files?.[name] ?? '', 'make the whole content');
  if (template.output) yield* lintOutput(template.output, argv);
}

const SHELLS: ReadonlySet<string> = new Set(['sh', 'bash', 'dash', 'ash', 'ksh', 'zsh', 'fish']);

/** Where the script of `sh -c SCRIPT` is, also behind a wrapper such as `env` or `timeout`. */
function shellScriptIndex(argv: readonly string[]): number | undefined {
  const shell = argv.findIndex((text) => SHELLS.has(text.slice(text.lastIndexOf('/') + 1)));
  if (shell === -1) return undefined;
  let takesScript = false;
  for (let i = shell + 1; i < argv.length; i++) {
    const text = argv[i] ?? '';
    if (!/^[-+]./.test(text)) return takesScript ? i : undefined;
    if (text === '--') return takesScript && i + 1 < argv.length ? i + 1 : undefined;
    if (/^-[A-Za-z]*c/.test(text)) takesScript = true;
    if (/^[-+][A-Za-z]*[oO]$/.test(text)) i++;
  }
  return undefined;
}

function* lintArguments(argv: readonly string[], script: number | undefined): Generator<Finding> {
  const lastOption = script ?? argv.indexOf('--');
  for (let i = 1; i < argv.length; i++) {
    const text = argv[i] ?? '';
    const data = dataIn(text);
    if (data === undefined || i === script) continue;
    if (script !== undefined && i === script + 1) {
      const message = `${data} is $0 of the script, and "$1" is what follows; put a name such as "sh" before it`;
      yield [['argv', i], { code: 'data_as_script_name', message }];
    } else if (text.startsWith(data) && (lastOption === -1 || i < lastOption)) {
      const instead = argv[i - 1]?.startsWith('-')
        ? `write option and data as one, "--option=${data}"`
        : 'put "--" before it';
      const message = `${data} that begins with - may be read as an option; send it on stdin, or ${instead} where the program knows that`;
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

const MAX_ARGUMENT_BYTES = 131_072;
const SHELL_VARIABLE = new RegExp(`\\$\\{(${PLACEHOLDERS.join('|')})\\}`);
/** Shell syntax in which a bar is no pipe, or need not be one: patterns, tests, here-documents. */
const OTHER_BARS = /\bcase\b|\[\[|<</;

function* lintScript(argv: readonly string[], index: number): Generator<Finding> {
  const script = argv[index] ?? '';
  const path = ['argv', index];
  // longer ones cannot be started
  if (script.length > MAX_ARGUMENT_BYTES) return;
  const data = dataIn(script) ?? (usesPlaceholder(script, 'work_dir') ? '{work_dir}' : undefined);
  if (data !== undefined) {
    const message = `${data} becomes part of the script: whoever writes it runs commands; write "$1" and add "sh", "${data}" after the script, or read it from stdin`;
    yield [path, { code: 'data_in_script', message }];
  }
  const variable = SHELL_VARIABLE.exec(script)?.[1];
  if (variable !== undefined) {
    const message = `\${${variable}} becomes $ and the value, which the shell takes for a variable of that name; write \${lbrace}${variable}} for the shell's own variable, or {${variable}} without the $`;
    yield [path, { code: 'placeholder_as_shell_variable', message }];
  }
  const bare = script.replace(/\\.|'[^']*'|"(?:[^"\\]|\\.)*"|(?<=^|\s)#[^\n]*/gs, '""');
  if (
    !OTHER_BARS.test(bare) &&
    /[^|>]\|(?!\|)/.test(bare) &&
    !argv.slice(0, index + 1).some((text) => text.includes('pipefail'))
  ) {
    const message =
      'the exit code of a pipe is that of its last command, so that a failure before it is lost; use bash -o pipefail -c';
    yield [path, { code: 'pipe_without_pipefail', message }];
  }
  const redirection =
    /(?:^|[^>&\d])(\d?)>\|?\s*(\/dev\/stdout|\/dev\/fd\/1|\/proc\/self\/fd\/1)(?![\w/])/.exec(bare);
  if (redirection) {
    const [, descriptor, name] = redirection;
    const message = `${descriptor}> ${name} empties what was printed before, because stdout is a file; write ${descriptor}>&1`;
    yield [path, { code: 'stdout_by_path', message }];
  }
}

function* lintJsonText(path: readonly string[], text: string, make: string): Generator<Finding> {
  if (!/^\s*(\{\s*"|\[\s*["{[])/.test(text)) return;
  const pieces = text.replace(/\\./gs, '').split('"');
  const data = dataIn(pieces.filter((_, i) => i % 2 === 1).join('"'));
  if (data === undefined) return;
  const instead =
    data === '{prompt}'
      ? `build the object in the step's "in" and ${make} "{prompt}"`
      : 'have the program read {system_file}';
  const message = `${data} is put into the JSON text as it is, so that a quote or a line break in it breaks the text; ${instead}`;
  yield [path, { code: 'data_in_json_text', message }];
}

const MANY_DOCUMENTS = /(?:^|[=_-])(?:stream-json|jsonl|ndjson|json-?lines|json-seq)$/i;
const ERROR_FIELD = /\/(?:is_?)?(?:err|errors?|failed|failure)$/i;

function* lintOutput(output: NonNullable<Template['output']>, argv: readonly string[]): Generator<Finding> {
  const { format, select, result_ptr, ok_from } = output;
  const many = argv.find(
    (text, i) => MANY_DOCUMENTS.test(text) && !isInputOption(text) && !isInputOption(argv[i - 1] ?? ''),
  );
  const readsOne = format !== 'jsonl' && select == null;
  const looksInside = format === 'json' || result_ptr != null || (ok_from != null && ok_from !== 'exit_code');
  if (many !== undefined && readsOne && looksInside) {
    const message = `${quote(many)} is likely to print a JSON document per line, and exactly one is read; write "format": "jsonl" and name the line with "select", or ask the program for a single document`;
    yield [['output'], { code: 'several_documents', message }];
  }
  for (const wanted of wantedTruths(ok_from)) {
    if (!ERROR_FIELD.test(wanted)) continue;
    const message = `${quote(wanted)} names an error: the step would pass where it is true; write {"ptr": ${quote(wanted)}, "equals": false}, name a field that is true on success, or "exit_code"`;
    yield [['output', 'ok_from'], { code: 'ok_from_error_field', message }];
  }
}

/** Pointers to what has to be true, or there, for the step to pass. */
function wantedTruths(ok_from: NonNullable<Template['output']>['ok_from']): string[] {
  if (typeof ok_from === 'string') return [ok_from];
  if (ok_from == null) return [];
  const { ptr, equals, not_equals, empty, all } = ok_from;
  const isWanted = equals === true || not_equals === false || empty === false || ok_from.in?.[0] === true;
  return [
    ...(ptr !== undefined && isWanted ? [ptr] : []),
    ...(all ?? []).flatMap((part) => wantedTruths(part)),
  ];
}

function isInputOption(text: string): boolean {
  return /^--?in/i.test(text);
}
