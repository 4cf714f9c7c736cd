import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isValidTemplate,
  missingMessage,
  PLACEHOLDERS,
  type Placeholder,
  renderText,
  unknownPlaceholders,
  usesPlaceholder,
} from '../../lib/blueprint/placeholders.ts';

const messages = (template: string): string[] =>
  [...unknownPlaceholders(template)].map(({ message }) => message);

describe('the check', () => {
  test('names every unknown token with its offset', () => {
    const found = [...unknownPlaceholders('{prompt} {one} {{two}}')];
    expect(found.map(({ token, offset }) => [token, offset])).toEqual([
      ['{one}', 9],
      ['{two}', 16],
    ]);
  });

  test('hints at the nearest name and lists the closed set', () => {
    expect(messages('{promt}')).toEqual([
      '{promt} at offset 0 is not a placeholder (did you mean {prompt}?); use one of {system} {system_file} {prompt} {model} {tools_csv} {work_dir} {task_id} {attempt}',
    ]);
  });

  test('tells a shell variable how to be written', () => {
    expect(messages('echo ${home}')[0]).toContain(
      'write ${lbrace}home} for ${home} (a shell also takes $home)',
    );
    expect(messages('echo ${promt}')[0]).toContain('did you mean {prompt}?');
    expect(messages('echo ${promt}')[0]).toContain('write ${lbrace}promt} for ${promt}');
  });

  test('tells other literal text how to be written, and the advice is itself valid', () => {
    expect(messages('curl -w %{http_code}')[0]).toMatch(/write %\{lbrace\}http_code\} for %\{http_code\}$/);
    expect(messages("awk '{print}'")[0]).toMatch(/write \{lbrace\}print\} for \{print\}$/);
    expect(messages('{promt}')[0]).not.toContain('literal');
  });

  test('a name of a megabyte does not make a message of a megabyte', () => {
    expect(messages(`{${'a'.repeat(1_000_000)}}`)[0]!.length).toBeLessThan(500);
  });

  test.each([
    ['{'.repeat(1_000_000)],
    [`${'{'.repeat(1_000_000)}}`],
    ['{a'.repeat(1_000_000)],
    [`{${'a'.repeat(4_000_000)}`],
  ])('a long run of braces takes linear time', (template) => {
    const begun = performance.now();
    expect(messages(template).length).toBeLessThan(2);
    expect(renderText(template, {}).text).toBe(template);
    expect(performance.now() - begun).toBeLessThan(10_000);
  });
});

describe('the renderer', () => {
  const values: Record<Placeholder, string> = {
    system: 'S',
    system_file: '/s.md',
    prompt: '{model} $& $1',
    model: '{prompt}',
    tools_csv: 'a,b',
    work_dir: '/w',
    task_id: 'T-1',
    attempt: '1',
  };

  test('replaces every token once and never scans a value again', () => {
    const { text, missing } = renderText('{system}{prompt}{model}{{attempt}}', values);
    expect(text).toBe('S{model} $& $1{prompt}{1}');
    expect(missing).toEqual([]);
  });

  test('lists each placeholder without a source once; system and tools_csv may be absent', () => {
    expect(renderText('[{system}{tools_csv}]{model}{work_dir}{model}', {})).toEqual({
      text: '[]',
      missing: ['model', 'work_dir'],
    });
  });

  test('says for every placeholder what is missing', () => {
    expect(PLACEHOLDERS.map(missingMessage).every((message) => message.includes('has no source'))).toBe(true);
    expect(missingMessage('model')).toContain('profile.model');
  });
});

const pieces = fc.constantFrom(
  '{',
  '}',
  '{{',
  'prompt',
  'model',
  '{prompt}',
  '{model}',
  '{evil}',
  '{a',
  '_',
  ' ',
  'Z',
  '9',
  '$',
  '\\',
  'ó',
);
const templates = fc.array(pieces, { maxLength: 30 }).map((parts) => parts.join(''));

/** The walk as the specification words it: nearest closing brace, one character on where it is no token. */
function specified(template: string, replace: (name: string) => string | undefined): string {
  let text = '';
  for (let i = 0; i < template.length; ) {
    const close = template[i] === '{' ? template.indexOf('}', i) : -1;
    const name = close === -1 ? undefined : template.slice(i + 1, close);
    const value = name === undefined ? undefined : replace(name);
    text += value ?? template[i];
    i = value === undefined ? i + 1 : close + 1;
  }
  return text;
}

describe('for any template', () => {
  test('the renderer does what the specification says', () => {
    fc.assert(
      fc.property(templates, fc.string(), fc.string(), (template, prompt, model) => {
        const values: Record<string, string> = { prompt, model };
        const expected = specified(template, (name) =>
          Object.hasOwn(values, name) ? values[name] : undefined,
        );
        expect(renderText(template, values).text).toBe(expected);
      }),
    );
  });

  test('the check finds exactly the candidates that the renderer leaves alone', () => {
    fc.assert(
      fc.property(templates, (template) => {
        const unknown: string[] = [];
        specified(template, (name) => {
          if (!/^[a-z_]+$/.test(name)) return undefined;
          if (!(PLACEHOLDERS as readonly string[]).includes(name)) unknown.push(`{${name}}`);
          return '';
        });
        expect([...unknownPlaceholders(template)].map(({ token }) => token)).toEqual(unknown);
        expect(isValidTemplate(template)).toBe(unknown.length === 0);
      }),
    );
  });

  test('a placeholder is used exactly when its value appears', () => {
    fc.assert(
      fc.property(templates, (template) => {
        expect(usesPlaceholder(template, 'model')).toBe(
          renderText(template, { model: '\0' }).text.includes('\0'),
        );
      }),
    );
  });
});

test.each([
  ['%{lbrace}http_code}', '%{http_code}'],
  ['${lbrace}home}', '${home}'],
  ["awk '{lbrace}print}'", "awk '{print}'"],
  ['{lbrace}prompt}', '{prompt}'],
  ['{lbrace}{prompt}}', '{P}'],
  ['{{prompt}}', '{P}'],
  ['{lbrace}lbrace}', '{lbrace}'],
  ['{lbrace}{lbrace}', '{{'],
  ['{Lbrace}{ lbrace }', '{Lbrace}{ lbrace }'],
])('%s is %s: a literal brace, and what follows it is text', (template, text) => {
  expect(isValidTemplate(template)).toBe(true);
  expect([...unknownPlaceholders(template)]).toEqual([]);
  expect(renderText(template, { prompt: 'P' })).toEqual({ text, missing: [] });
});
