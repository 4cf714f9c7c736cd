import { describe, expect, test } from 'vitest';
import { readSource, withPositions } from '../../lib/blueprint/source.ts';
import { StepspawnError } from '../../lib/errors.ts';
import { canonicalJson } from '../../lib/json.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const read = (text: string, name = 'b.json') => readSource(bytes(text), name);
const json = (text: string, name: string): string => canonicalJson(read(text, name).value);

/** Code, line and column of the one issue with which reading fails, and its message. */
function refusal(text: string | Uint8Array, name = 'b.json'): { at: string; message: string } {
  try {
    readSource(typeof text === 'string' ? bytes(text) : text, name);
  } catch (error) {
    if (!(error instanceof StepspawnError)) throw error;
    expect(error.code).toBe('InvalidBlueprint');
    expect(error.issues).toHaveLength(1);
    const { code, path, line, column, message } = error.issues[0]!;
    expect(path).toBe('');
    return { at: line === undefined ? code : `${code} ${line}:${column}`, message };
  }
  throw new Error('it was read');
}

describe('JSON', () => {
  test('keeps digits and ignores a byte-order mark', () => {
    expect(json('\ufeff{"n":1.0,"m":9007199254740993}', 'b.json')).toBe('{"m":9007199254740993,"n":1.0}');
  });

  test('may hold comments and trailing commas', () => {
    const text = '// one\n{"a": [1, 2,], /* "b": 3 */ "url": "http://x/*y*/",\n}\n';
    expect(json(text, 'b.json')).toBe('{"a":[1,2],"url":"http://x/*y*/"}');
  });

  test.each([
    ['{"a": 1\n "b": 2}', 'not_json 2:2', 'expected , before the next element'],
    ['{"a": x}', 'not_json 1:7', 'unexpected text, got "x"'],
    ['{"a": [1,', 'not_json 1:10', 'the end of the text'],
    ['[,]', 'not_json 1:2', 'expected a value'],
    ['[1,,]', 'not_json 1:4', 'expected a value'],
    ['{"a": "b\n"}', 'not_json 1:7', 'not closed'],
    ['{"a": 1} 2', 'not_json 1:10', 'after the end'],
    ['{"a": "\\ud800"}', 'not_json 1:7', 'lone surrogate'],
    ['{"a": 1e999}', 'not_json 1:7', 'number out of range: 1e999'],
    ['', 'not_json 1:1', 'the document is empty'],
    ['{"a": "\0"}', 'not_json 1:7', 'control character'],
  ])('says where and why %j is not JSON', (text, at, message) => {
    const refused = refusal(text);
    expect(refused.at).toBe(at);
    expect(refused.message).toContain(message);
  });

  test('closing brackets before opening ones do not hide nesting', () => {
    expect(refusal(`[${'}'.repeat(200_000)}${',['.repeat(200_000)}`).at).toBe('not_json 1:2');
  });
});

describe('limits', () => {
  test.each([
    ['a document over 16 MiB', 'b.json', () => new Uint8Array(50_000_000), 'too_large'],
    ['a YAML document over 4 MiB', 'b.yaml', () => bytes(`a: ${'x'.repeat(5_000_000)}`), 'too_large'],
    ['JSON nested 100,000 deep', 'b.json', () => bytes('['.repeat(100_000)), 'too_deep 1:128'],
    ['a megabyte of {', 'b.json', () => bytes('{'.repeat(1_000_000)), 'too_deep 1:128'],
    ['YAML nested 100,000 deep', 'b.yaml', () => bytes('[ '.repeat(100_000)), 'too_deep'],
    ['YAML blocks nested 100,000 deep', 'b.yaml', () => bytes('- '.repeat(100_000)), 'too_deep'],
    ['a megabyte of ] in YAML', 'b.yaml', () => bytes(']'.repeat(1_000_000)), 'not_yaml 1:1'],
    ['too many YAML tokens', 'b.yaml', () => bytes('- 1\n'.repeat(400_000)), 'too_large'],
    ['bytes that are not UTF-8', 'b.json', () => Uint8Array.from([0x7b, 0x0a, 0x22, 0xff]), 'not_utf8 2:2'],
  ])('%s is refused', (_what, name, make, at) => {
    const begun = performance.now();
    expect(refusal(make(), name).at.startsWith(at)).toBe(true);
    expect(performance.now() - begun).toBeLessThan(10_000);
  });
});

describe('YAML', () => {
  test('is chosen by the name, else by the first character that counts', () => {
    expect(json('id: x', 'b.yml')).toBe('{"id":"x"}');
    expect(json('id: x', '-')).toBe('{"id":"x"}');
    expect(json('// c\n {"id": "x",}', '-')).toBe('{"id":"x"}');
    expect(json('{id: x}', 'b.yaml')).toBe('{"id":"x"}');
    expect(refusal('id: x', 'b.json').at).toBe('not_json 1:1');
  });

  test.each([
    ['a: 1.0', '{"a":1.0}'],
    ['a: 12345678901234567890', '{"a":12345678901234567890}'],
    ['a: [0x1F, 0o17, +12, .5, 1., -0, 007, 1e3]', '{"a":[31,15,12,0.5,1,-0,7,1e3]}'],
    ['a: [yes, no, 1_000, 2024-01-01, 12:30:45]', '{"a":["yes","no","1_000","2024-01-01","12:30:45"]}'],
    ['a: [true, null, ~, ""]\nb:', '{"a":[true,null,null,""],"b":null}'],
    ['1: a\ntrue: b\n1.50: c', '{"1":"a","1.50":"c","true":"b"}'],
    ['a: |\n  x\n  y\nb: !!str 5', '{"a":"x\\ny\\n","b":"5"}'],
    ['__proto__: {x: 1}\nconstructor: 2', '{"__proto__":{"x":1},"constructor":2}'],
    ['a: &x {k: 1}\nb: [*x, *x]', '{"a":{"k":1},"b":[{"k":1},{"k":1}]}'],
    ['a: &x 1\nb: &x 2\nc: *x', '{"a":1,"b":2,"c":2}'],
    ['a: &x {k: 1}\nb:\n  <<: *x', '{"a":{"k":1},"b":{"<<":{"k":1}}}'],
  ])('%j is %s', (text, expected) => {
    expect(json(text, 'b.yaml')).toBe(expected);
  });

  const bomb = ['&a0 [x]', ...Array.from({ length: 9 }, (_, i) => `&a${i + 1} [${Array(9).fill(`*a${i}`)}]`)];
  test.each([
    ['duplicate keys', 'id: x\nid: y', 'not_yaml 2:1', "duplicate key 'id'"],
    ['several documents', 'a: 1\n---\nb: 2', 'not_yaml 2:1', 'several YAML documents'],
    ['an anchor inside itself', 'a: &a [*a]', 'not_yaml 1:8', 'stands inside what it names'],
    ['an unknown alias', 'a: *b', 'not_yaml 1:4', 'names no anchor before it'],
    ['not a number', 'a: .nan', 'not_yaml 1:4', '.nan is not a number that JSON can hold'],
    ['infinity', 'a: -.inf', 'not_yaml 1:4', 'is not a number'],
    ['an unknown tag', 'a: !foo x', 'not_yaml 1:4', 'unresolved tag'],
    ['a list as key', '? [a]\n: b', 'not_yaml 1:3', 'a key must be text'],
    ['a null key', '~: b', 'not_yaml 1:1', 'a key must be text'],
    ['broken indentation', 'a:\n  - b\n c: d', 'not_yaml', ''],
    ['YAML 1.1', '%YAML 1.1\n---\na: yes', 'not_yaml 1:1', 'write YAML 1.2'],
    ['nothing', '# only a comment\n', 'not_yaml 1:1', 'empty'],
    [
      'an alias bomb',
      bomb.map((line, i) => `k${i}: ${line}`).join('\n'),
      'too_large',
      'aliases add more than',
    ],
    [
      'a bomb of text',
      `a: &a "${'x'.repeat(1_000_000)}"\nb: [${Array(20).fill('*a')}]`,
      'too_large',
      'aliases',
    ],
    [
      'depth by aliases',
      ['a0: &a0 [x]', ...Array.from({ length: 150 }, (_, i) => `a${i + 1}: &a${i + 1} [*a${i}]`)].join('\n'),
      'too_deep',
      'deeper than 127',
    ],
  ])('%s is refused', (_what, text, at, message) => {
    const refused = refusal(text, 'b.yaml');
    expect(refused.at.startsWith(at)).toBe(true);
    expect(refused.message).toContain(message);
  });
});

describe('positions', () => {
  const asJson = '{\n  // c\n  "a": [1, {"b/c": "x"}],\n  "a": [2, {"b/c": "y"}]\n}';
  const asYaml = 'a:\n  - 1\n  - b/c: "x"\nd: &x\n  e: 1\nf: *x\n';

  test.each([
    ['', 1, 1],
    ['/a', 4, 8],
    ['/a/1', 4, 12],
    ['/a/1/b~1c', 4, 20],
    ['/a/7', 4, 8],
    ['/nothing/here', 1, 1],
  ])('of %j in JSON; the last of two equal keys counts', (pointer, line, column) => {
    expect(read(asJson).locate(pointer)).toEqual({ line, column });
  });

  test.each([
    ['', 1, 1],
    ['/a/1/b~1c', 3, 10],
    ['/a/1/missing', 3, 5],
    ['/f', 6, 4],
    ['/f/e', 6, 4],
    ['/zzz', 1, 1],
  ])('of %j in YAML', (pointer, line, column) => {
    expect(read(asYaml, 'b.yaml').locate(pointer)).toEqual({ line, column });
  });

  test('are added to issues, many in one pass', () => {
    const list = `[\n${Array.from({ length: 50_000 }, (_, i) => i).join(',\n')}]`;
    const issues = Array.from({ length: 1000 }, (_, i) => ({
      code: 'x',
      path: `/${i * 50}`,
      message: 'm',
      severity: 'error' as const,
    }));
    const placed = withPositions(issues, read(list));
    expect(placed.map(({ line, column }) => [line, column])).toEqual(issues.map((_, i) => [i * 50 + 2, 1]));
  });
});
