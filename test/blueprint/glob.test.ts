import { matchesGlob } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type GlobAnswer, readGlob } from '../../lib/blueprint/glob.ts';

function glob(text: string): Extract<GlobAnswer, { ok: true }>['glob'] {
  const answer = readGlob(text);
  if (!answer.ok) throw new Error(answer.problem);
  return answer.glob;
}

function matches(text: string, path: string): boolean {
  const { start, afterName, afterSlash, matches: isMatch } = glob(text);
  const names = path.split('/');
  return isMatch(
    names.reduce((states, name, i) => afterName(i === 0 ? states : afterSlash(states), name), start),
  );
}

describe('a glob', () => {
  test.each<[text: string, yes: string[], no: string[]]>([
    ['a.md', ['a.md'], ['a_md', 'x/a.md', 'a.md/x', 'A.md']],
    ['*.md', ['a.md', 'a.b.md'], ['.a.md', '.md', 'x/a.md', 'a.mdx']],
    ['*', ['a', 'ü 😀'], ['.a', 'a/b']],
    ['a*', ['a', 'a.', 'ab'], ['a/b', 'ba']],
    ['a?c', ['abc', 'a.c', 'a😀c'], ['ac', 'a/c', 'abbc']],
    ['?a', ['xa'], ['.a']],
    ['.*', ['.a', '.', '.a.b'], ['a']],
    ['**', ['a', 'a/b/c'], ['.a', 'a/.b', '.a/b']],
    ['**/*.md', ['a.md', 'x/y/a.md'], ['.x/a.md', 'x/.a.md']],
    ['a/**', ['a/b', 'a/b/c'], ['a', 'ab/c', 'a/.b']],
    ['a/**/b', ['a/b', 'a/x/y/b'], ['ab', 'a/.x/b', 'a/x/yb']],
    ['**/**/b', ['b', 'x/b'], ['xb']],
    ['a**b', ['ab', 'axxb'], ['ax/b']],
    ['**b', ['xb'], ['x/b']],
    ['[a-c]x', ['ax', 'cx'], ['dx', 'x', '-x']],
    ['[!a-c]x', ['dx', '-x'], ['ax', '/x', '.x']],
    ['[^b-]x', ['cx'], ['bx', '-x']],
    ['[]]', [']'], ['[']],
    ['[\\]a]', [']', 'a'], ['\\']],
    ['[.]a', [], ['.a']],
    ['[α-ω😀]', ['β', '😀'], ['a']],
    ['{a,b}.md', ['a.md', 'b.md'], ['c.md', '{a,b}.md']],
    ['x{a,b{c,d},}', ['xa', 'xbc', 'xbd', 'x'], ['xb']],
    ['{,x/}a', ['a', 'x/a'], ['xa']],
    ['{out/**,doc}/x.md', ['out/q/x.md', 'out/q/r/x.md', 'doc/x.md'], ['out/x.md']],
    ['{src,lib}/**/*.{ts,js}', ['src/a.ts', 'lib/x/b.js'], ['src/a.md', 'a.ts']],
    ['a{**,b}', ['a', 'ax', 'ab'], ['a/x']],
    ['\\*\\{x', ['*{x'], ['a{x']],
    ['~/.a/*', ['.a/b'], ['~/.a/b']],
    ['!a', ['!a'], ['b']],
    ['+(a|b)', ['+(a|b)'], ['a']],
    ['#a', ['#a'], []],
    ['{.a,b}c', ['.ac', 'bc'], []],
    ['\\.a', ['.a'], []],
    ['**/.x/*', ['.x/a', 'a/.x/b'], ['.y/.x/a', '.x/.a']],
  ])('%s', (text, yes, no) => {
    expect(yes.filter((path) => !matches(text, path))).toEqual([]);
    expect(no.filter((path) => matches(text, path))).toEqual([]);
  });

  test.each([
    ['', 'empty'],
    ['/a', 'absolute'],
    ['~', 'only ~/… names HOME'],
    ['~x/*', 'only ~/… names HOME'],
    ['../a', "the segment '..'"],
    ['a/{b,..}/c', "the segment '..'"],
    ['a/./b', "the segment '.'"],
    ['a//b', 'an empty segment'],
    ['out/', 'an empty segment'],
    ['~/', 'an empty segment'],
    ['a\0', 'a NUL byte'],
    ['{prompt}*', 'looks like a placeholder'],
    ['a{b', '{ at offset 1 is not closed; write \\{ for the character'],
    ['{a,{b,c}', '{ at offset 0 is not closed'],
    ['a{A}', '{ } at offset 1 holds no comma; write {a,b}, or \\{ for the character'],
    ['a[b', '[ at offset 1 is not closed; write \\[ for the character'],
    ['[]', '[ at offset 0 is not closed'],
    ['[a/b]', '[ at offset 0 is not closed'],
    ['[[:alpha:]]', 'classes such as [:alpha:] are not known'],
    ['a\\', 'a \\ without a character'],
    ['a\\/b', 'a \\ without a character'],
    ['a'.repeat(513), '513 characters long, a glob can have 512'],
  ])('%j is refused', (text, why) => {
    const answer = readGlob(text);
    expect(answer).toEqual({ ok: false, problem: expect.stringContaining(why) });
  });

  test('agrees with Node where both have a say', () => {
    const name = fc.stringMatching(/^[ab.]{1,4}$/).filter((text) => !/^\.+$/.test(text));
    const part = fc.oneof(fc.constantFrom('*', '?', 'a', 'b', '.', '[ab]', '[!a]', '{a,b}', '{a,b.}'));
    const segment = fc.oneof(
      fc.constant('**'),
      fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join('')),
    );
    const pattern = fc
      .array(segment, { minLength: 1, maxLength: 3 })
      .map((segments) => segments.join('/'))
      // Node takes a final ** for the folder itself too, and dots of other globs as it finds them
      .filter((text) => readGlob(text).ok && !/\*\*$|\*{3}|(^|\/)(\{|\[|\?)[^/]*\./.test(text));
    fc.assert(
      fc.property(pattern, fc.array(name, { minLength: 1, maxLength: 3 }), (text, names) => {
        const path = names.join('/');
        expect(`${text} ${path} ${matches(text, path)}`).toBe(`${text} ${path} ${matchesGlob(path, text)}`);
      }),
      { numRuns: 3000 },
    );
  });

  test('says what of a folder can lead on', () => {
    const { start, afterName, afterSlash } = glob('out/{a,b}/*.md');
    const below = (...names: string[]) =>
      names.reduce((states, name) => afterSlash(afterName(states, name)), start);
    expect([below('out'), below('out', 'a')].map((states) => states.length > 0)).toEqual([true, true]);
    expect([below('node_modules'), below('out', 'c'), below('out', 'a', 'x')]).toEqual([[], [], []]);
  });

  test('takes time in proportion, however it is made', () => {
    const start = performance.now();
    expect(matches(`${'*a'.repeat(250)}b`, 'a'.repeat(255))).toBe(false);
    expect(matches('{a,b}'.repeat(100), 'a'.repeat(100))).toBe(true);
    expect(matches(`${'{'.repeat(100)}a${',b}'.repeat(100)}`, 'a')).toBe(true);
    expect(matches(`${'**/'.repeat(160)}b`, `${'a/'.repeat(100)}c`)).toBe(false);
    expect(performance.now() - start).toBeLessThan(1000);
  });
});
