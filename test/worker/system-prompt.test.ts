import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../lib/json.ts';
import { checkSystemPrompts, hasTemplateSyntax, renderSystemPrompt } from '../../lib/worker/system-prompt.ts';

const run = promisify(execFile);
const MODULE = new URL('../../lib/worker/system-prompt.ts', import.meta.url).href;

/** Runs code that has `render` in a process of its own; resolves when that process ends by itself. */
async function inProcess(code: string): Promise<unknown> {
  const source = `import { renderSystemPrompt as render } from ${JSON.stringify(MODULE)};\n${code}`;
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', source], { timeout: 25_000 });
  return JSON.parse(stdout);
}

function nest(levels: number): JsonValue {
  let value: JsonValue = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

const DOUBLED = `{% set x = 'ab' %}${'{% set x = x ~ x %}'.repeat(40)}{{ x }}`;
const ENDLESS = '{% for a in range(10000) %}{% for b in range(10000) %}{{ b }}{% endfor %}{% endfor %}';
const SLOW = `{% set x = 'a' %}${'{% set x = x ~ x %}'.repeat(22)}{% for i in range(1000) %}{% set y = x|replace('b', 'c') %}{% endfor %}`;

describe('a system prompt', () => {
  it.each([
    ['{prompt} { } }} $', false],
    ['{{ x }}', true],
    ['{% x', true],
    ['{# x', true],
  ])('%s is a template: %s', (text, is) => {
    expect(hasTemplateSyntax(text)).toBe(is);
  });

  it.each<[string, JsonValue, string]>([
    ['plain\r\n', 'x', 'plain'],
    ['plain\n\n', 'x', 'plain\n'],
    ['{{ directive }}\n\n', 'a\n', 'a\n\n'],
    [
      '{{ a }} {{ __proto__.b }} {{ constructor }}',
      JSON.parse('{"a":null,"__proto__":{"b":1},"constructor":2}'),
      'none 1 2',
    ],
    ['{{ n }}', { n: JSON.rawJSON('18446744073709551615') }, '18446744073709551615'],
    ['{{ n + 1 }}', { n: JSON.rawJSON('9007199254740993') }, '9007199254740994'],
    ['{{ n }}', { n: 9007199254740992 }, '9007199254740992'],
    ['{{ n }} {{ m }}', { n: JSON.rawJSON('2.0'), m: 1.5 }, '2 1.5'],
    ['{{ a }}', { a: 1, unnamed: nest(10_000) }, '1'],
    ['{{ directive }}', nest(400), `${'['.repeat(400)}1${']'.repeat(400)}`],
  ])('%j renders', async (prompt, directive, text) => {
    expect(await renderSystemPrompt(prompt, directive)).toEqual({ ok: true, text });
  });

  it('names the undefined value, its line, and what is there', async () => {
    expect(await renderSystemPrompt('hello\n日本 {{ who.name }}', { intent: 'x', who: {} })).toEqual({
      ok: false,
      code: 'undefined_variable',
      message:
        "undefined value `who.name` in line 2; the input's variables: intent, who; guard what may be absent with `is defined` or `default(…)`",
    });
  });

  it.each([
    [
      '{{ unclosed',
      'syntax_error',
      'syntax error: unexpected end of input, expected end of variable block at `unclosed` in line 1',
    ],
    ['{{ 1|nope }}', 'template_error', 'unknown filter: filter nope is unknown in line 1'],
    [
      '{% include "prompt" %}',
      'template_error',
      'template not found: tried to include non-existing template "prompt" in line 1',
    ],
    [ENDLESS, 'template_limit', 'it takes more than 1000000 steps; engine ran out of fuel in line 1'],
    [DOUBLED, 'template_limit', 'needing more than 64 MiB of memory'],
    [SLOW, 'template_limit', 'the template takes longer than 1 s'],
    ['{{ range(1000000000) }}', 'template_error', 'invalid operation: range has too many elements in line 1'],
    [
      `{% set x = 'aaaaaaaaaa' %}${"{% set x = x|replace('a', x) %}".repeat(10)}{{ x }}`,
      'template_limit',
      'needing more than 64 MiB of memory',
    ],
    [
      `{% set x = 'a' %}${'{% set x = x ~ x %}'.repeat(23)}{{ x }}`,
      'template_limit',
      'the rendered prompt is larger than 4194304 bytes',
    ],
    ['{{ range(10)|batch(1000000000, "x") }}', 'template_limit', 'needing more than 64 MiB of memory'],
    [
      `{{ ${'not '.repeat(100_000)}1 }}`,
      'template_limit',
      'the template or a value in it is nested too deep',
    ],
    [
      '{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}',
      'template_limit',
      'the template or a value in it is nested too deep',
    ],
    [
      `{{ directive }}${'x'.repeat(9_000_000)}`,
      'template_limit',
      'the template is larger than 8388608 characters',
    ],
  ])('refuses %# in time, and renders the next one', async (prompt, code, message) => {
    const started = performance.now();
    const answer = await renderSystemPrompt(prompt, 'x');
    expect(answer).toEqual({ ok: false, code, message: expect.stringContaining(message) });
    expect(performance.now() - started).toBeLessThan(4000);
    expect(await renderSystemPrompt('{{ directive }}', 'next')).toEqual({ ok: true, text: 'next' });
  });

  it.each([
    [nest(10_000), 'the input that the prompt names is nested deeper than 500 levels'],
    ['x'.repeat(9_000_000), 'the input that the prompt names is larger than 8388608 characters'],
    [
      Array.from({ length: 2_000_000 }, () => 1),
      'the input that the prompt names is larger than 8388608 characters',
    ],
  ])('refuses an input beyond its limits', async (directive, message) => {
    expect(await renderSystemPrompt('{{ directive }}', directive)).toEqual({
      ok: false,
      code: 'template_limit',
      message,
    });
  });

  it('is rendered one at a time, so that a bad one spoils no other', async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => renderSystemPrompt(n % 10 === 3 ? DOUBLED : '{{ n }}', { n })),
    );
    expect(answers.map((answer) => (answer.ok ? answer.text : answer.code))).toEqual(
      Array.from({ length: 50 }, (_, n) => (n % 10 === 3 ? 'template_limit' : String(n))),
    );
  });

  it('does not take an answer for late because this thread was busy', async () => {
    await renderSystemPrompt('{{ directive }}', 'warm');
    const answer = renderSystemPrompt('{{ directive }}', 'x');
    await new Promise((resolve) => setTimeout(resolve, 1));
    const until = performance.now() + 1500;
    while (performance.now() < until);
    expect(await answer).toEqual({ ok: true, text: 'x' });
  });

  it('is checked for its syntax alone', async () => {
    expect(await checkSystemPrompts(['{{ missing }}', '{{ x', 'plain {', '{{ x', DOUBLED])).toEqual([
      null,
      expect.stringContaining('syntax error'),
      null,
      expect.stringContaining('syntax error'),
      null,
    ]);
  });
});

describe('the process that renders', () => {
  it('can end, with the engine idle', async () => {
    const code = `console.log(JSON.stringify(await render('{{ directive }}', 'x')));`;
    expect(await inProcess(code)).toEqual({ ok: true, text: 'x' });
  });

  it('stays within 150 MB more than before, whatever the template', async () => {
    const code = `
      const before = process.memoryUsage().rss;
      let peak = 0;
      setInterval(() => { peak = Math.max(peak, process.memoryUsage().rss); }, 2).unref();
      for (const prompt of ${JSON.stringify([DOUBLED, ENDLESS, SLOW, DOUBLED, '{{ range(100000)|join("'.concat('x'.repeat(10_000), '") }}')])}) {
        await render(prompt, 'x');
      }
      console.log(JSON.stringify((peak - before) / 1e6));`;
    expect(await inProcess(code)).toBeLessThan(150);
  });
});
