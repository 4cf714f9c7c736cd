import { expect, test } from 'vitest';
import { compile } from '../../lib/blueprint/compile.ts';
import type { JsonObject } from '../../lib/json.ts';
import { oneStep } from '../support/documents.ts';

/** `code path-below-the-template` of every warning; the document must be valid. */
function lintsOf(template: JsonObject): string[] {
  const answer = compile(oneStep(template));
  expect(answer).toMatchObject({ ok: true });
  return answer.ok
    ? answer.warnings.map(({ code, path }) => `${code} ${path.replace('/subprocesses/0', '')}`)
    : [];
}

const sh = (script: string, ...rest: string[]) => ({ argv: ['sh', '-c', script, ...rest] });
const reads = (output: JsonObject, ...argv: string[]) => ({ argv: ['tool', ...argv], output });

test.each<[why: string, template: JsonObject, lints: string[]]>([
  ['data in a script', sh('echo {prompt}'), ['data_in_script /argv/2']],
  [
    'the same behind a wrapper',
    { argv: ['timeout', '5', '/bin/bash', '-ec', 'echo {system}'] },
    ['data_in_script /argv/4'],
  ],
  ['data as an operand', { argv: ['tool', '-p', '{prompt}'] }, ['data_as_option /argv/2']],
  ['data after --', { argv: ['tool', '--', '{prompt}'] }, ['data_in_argv /argv/2']],
  ['data within an option', { argv: ['tool', '--system={system}'] }, ['data_in_argv /argv/1']],
  ['an argument of a script', sh('echo "$1"', 'x', '{prompt}'), ['data_in_argv /argv/4']],
  ['options together', { argv: ['bash', '-Eec', 'a {prompt}'] }, ['data_in_script /argv/2']],
  [
    'options between',
    { argv: ['bash', '-c', '-o', 'pipefail', '--', 'a {prompt} | b'] },
    ['data_in_script /argv/5'],
  ],
  ['a folder in a script', sh('cd {work_dir} && make'), ['data_in_script /argv/2']],
  [
    'a placeholder as a shell variable',
    sh('model=a; echo "${model}"'),
    ['placeholder_as_shell_variable /argv/2'],
  ],
  ['data as the name of a script', sh('echo "$1"', '{prompt}'), ['data_as_script_name /argv/3']],
  ['a pipe', sh('false | cat'), ['pipe_without_pipefail /argv/2']],
  ['a pipe after or', sh('a || b|c'), ['pipe_without_pipefail /argv/2']],
  ['stdout by path', sh('echo 1 > /dev/stdout'), ['stdout_by_path /argv/2']],
  ['stdout by path, close', sh('echo 1 >/dev/fd/1; echo 2'), ['stdout_by_path /argv/2']],
  ['stderr to stdout by path', sh('a 2>/dev/stdout'), ['stdout_by_path /argv/2']],
  ['data in a JSON string', { argv: ['cat'], stdin: '{"task": "{prompt}"}' }, ['data_in_json_text /stdin']],
  [
    'data in a JSON array',
    { argv: ['cat'], stdin: '["a \\" b", "x {prompt}"]' },
    ['data_in_json_text /stdin'],
  ],
  [
    'data in a JSON string of a file',
    { argv: ['cat'], files: { '~/.a/b.json': '{"task": "{prompt}"}', plain: 'x {prompt}' } },
    ['data_in_json_text /files/~0~1.a~1b.json'],
  ],
  [
    'an error field',
    reads({ format: 'json', ok_from: '/is_error' }),
    ['ok_from_error_field /output/ok_from'],
  ],
  [
    'a stream of documents',
    reads({ format: 'json' }, '--output-format', 'stream-json'),
    ['several_documents /output'],
  ],
  ['a format in one word', reads({ format: 'json' }, '--format=ndjson'), ['several_documents /output']],
])('%s is named', (_, template, lints) => {
  expect(lintsOf(template)).toEqual(lints);
});

test.each<[why: string, template: JsonObject]>([
  ['data on stdin', { argv: ['cat'], stdin: '{prompt}' }],
  ['JSON around a JSON value', { argv: ['cat'], stdin: '{"task": {prompt}, "more": [1]}' }],
  ['a file of JSON data alone', { argv: ['cat'], files: { 'in.json': '{prompt}' } }],
  ['text with quotes', { argv: ['cat'], stdin: 'Say "{prompt}"' }],
  ['data in the environment', { argv: ['sh', '-c', 'echo "$DATA"'], env: { DATA: '{prompt}' } }],
  ['or and a bar in quotes', sh('a || jq \'.x | .y\' "b|c" >|file')],
  ['an escaped bar', sh('grep a\\|b')],
  ['pipefail in the script', { argv: ['bash', '-c', 'set -o pipefail; a | b'] }],
  ['pipefail as an option', { argv: ['bash', '-o', 'pipefail', '-c', 'a | b'] }],
  ['stdout appended to or by number', sh('echo 1 >>/dev/stdout; echo 2 >&1; echo 3 >/dev/stdout2')],
  ['a shell variable of that name', sh('model=a; echo "${lbrace}model}" $model ${HOME}')],
  ['a field that is true on success', reads({ format: 'json', ok_from: '/result/ok' })],
  ['a field that only holds the word', reads({ format: 'json', ok_from: '/no_errors_found' })],
  ['a stream whose output is kept as text', { argv: ['tool', '--output-format', 'stream-json'] }],
  ['a script file with an option -c', { argv: ['bash', 'run.sh', '-c', 'a | b'] }],
  ['escaped quotes', sh('echo "{\\"a\\": \\"x | y\\"}"')],
  ['a bar in a pattern or a comment', sh('case $1 in a|b) ;; esac # a | b')],
  ['text that begins with a bracket', { argv: ['cat'], stdin: '[Task] Answer "{prompt}"' }],
  ['an input format', reads({ format: 'json' }, '--input-format', 'stream-json', '--input=ndjson')],
  ['a shell without a script', { argv: ['sh', '-c'] }],
])('%s is not', (_, template) => {
  expect(lintsOf(template)).toEqual([]);
});

test('a message names the template, its users and what to write', () => {
  const answer = compile(oneStep(sh('echo {prompt}')));
  expect(answer.ok && answer.warnings.map(({ message, severity }) => [severity, message])).toEqual([
    [
      'warning',
      expect.stringMatching(
        /^template 't' argv\[2\]: \{prompt\} becomes part of the script.*write "\$1".*used by agent 'w'/,
      ),
    ],
  ]);
});

test('a long template is looked through in linear time', () => {
  const long = (text: string) => text.repeat(300_000 / text.length);
  const start = performance.now();
  for (const text of ['|', '"', "'", '\\', '> ', '{prompt}"', '{prompt}']) {
    compile(oneStep({ argv: ['sh', '-c', long(text), long(text)], stdin: `["${long(text)}` }));
  }
  expect(performance.now() - start).toBeLessThan(5000);
});
