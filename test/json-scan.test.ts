import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type JsonValue, MAX_DEPTH, parseJson, resolvePointer } from '../lib/json.ts';
import { createJsonScanner, createListScanner, type Match, type Scan } from '../lib/json-scan.ts';
import { decodeUtf8, trim } from '../lib/worker/text.ts';

function scan(
  text: string | Uint8Array,
  pointers: readonly string[] = [],
  cuts: readonly number[] = [],
): Scan {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text;
  const scanner = createJsonScanner(pointers);
  const borders = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const to of [...borders, bytes.length]) {
    const chunk = Uint8Array.from(bytes.subarray(from, to));
    scanner.push(chunk);
    chunk.fill(0x7f);
    from = to;
  }
  return scanner.end();
}

function scanByBytes(text: string | Uint8Array, pointers: readonly string[] = []): Scan {
  const length = Buffer.from(text).length;
  return scan(
    text,
    pointers,
    Array.from({ length }, (_, i) => i),
  );
}

/** The document that stdout holds as normalisation reads it, or undefined. */
function read(bytes: Uint8Array): JsonValue | undefined {
  try {
    const trimmed = trim(decodeUtf8(bytes));
    const body = trimmed.startsWith('\ufeff') ? trim(trimmed.slice(1)) : trimmed;
    if (body.startsWith('\ufeff')) return undefined;
    const document = parseJson(body);
    return tokensAreFine(body) ? document : undefined;
  } catch {
    return undefined;
  }
}

/** Numbers and strings of the text, also those that a later duplicate of their key replaces. */
function tokensAreFine(text: string): boolean {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g) ?? [];
  return tokens.every((token) =>
    token.startsWith('"') ? JSON.parse(token).isWellFormed() : Number.isFinite(Number(token)),
  );
}

function sameAsParse(bytes: Uint8Array, pointers: readonly string[], cuts: readonly number[]): void {
  const document = read(bytes);
  for (const found of [scan(bytes, pointers), scan(bytes, pointers, cuts)]) {
    expect(found.ok).toBe(document !== undefined);
    if (!found.ok || document === undefined) continue;
    const at = ({ start, end }: { start: number; end: number }) =>
      JSON.stringify(parseJson(decodeUtf8(bytes.subarray(start, end))));
    expect(at(found.document)).toBe(JSON.stringify(document));
    for (const pointer of pointers) {
      const range = found.find(pointer);
      const value = resolvePointer(document, pointer);
      expect(range && at(range)).toBe(value === undefined ? undefined : JSON.stringify(value));
    }
  }
}

const name = fc.constantFrom(
  'a',
  'b',
  'key',
  '',
  '0',
  '1',
  'a/b',
  'm~n',
  'é',
  '😀',
  '__proto__',
  'constructor',
);
const numberText = fc.oneof(
  fc.constantFrom('0', '-0', '1.0', '9007199254740993', '1e308', '1.7976931348623158e308', '0e999', '1E-400'),
  fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => JSON.stringify(value)),
);
const stringText = fc.oneof(
  fc.string({ unit: 'binary' }).map((text) => JSON.stringify(text.toWellFormed())),
  fc.constantFrom('"\\ud83d\\ude00"', '"\\u00e9\\/\\b"', '"\\\\"', '"a\\"b"', '"\u007f\u2028"'),
);
const space = fc.stringMatching(/^[ \t\r\n]{0,2}$/);
/** JSON text with duplicate keys, white space and numbers in any spelling. */
const { text: documentText } = fc.letrec<{ text: string; list: string; object: string }>((tie) => ({
  text: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    numberText,
    stringText,
    fc.constantFrom('true', 'false', 'null'),
    tie('list'),
    tie('object'),
  ),
  list: fc
    .tuple(fc.array(tie('text'), { maxLength: 4 }), space)
    .map(([items, gap]) => `[${gap}${items.join(`${gap},${gap}`)}${gap}]`),
  object: fc
    .tuple(fc.array(fc.tuple(name, fc.boolean(), tie('text')), { maxLength: 5 }), space)
    .map(([members, gap]) => {
      const texts = members.map(([key, escaped, value]) => `${quoted(key, escaped)}${gap}:${gap}${value}`);
      return `{${gap}${texts.join(`${gap},${gap}`)}${gap}}`;
    }),
}));

function quoted(text: string, escaped: boolean): string {
  if (!escaped) return JSON.stringify(text);
  const escapes = text.split('').map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
  return `"${escapes.join('')}"`;
}

const pointer = fc
  .array(name, { maxLength: 3 })
  .map((path) => path.map((key) => `/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''))
  .filter((text) => text !== '');
const pointersOf = fc.array(pointer, { maxLength: 4 });
const cutsOf = fc.array(fc.nat(), { maxLength: 6 });
const around = fc.constantFrom(
  '',
  ' ',
  '\n',
  '\u0085',
  '\u00a0',
  '\u1680',
  '\u2003',
  '\u2028',
  '\u3000',
  '\ufeff',
  '\v',
);
const mutation = fc.tuple(
  fc.nat(),
  fc.nat({ max: 2 }),
  fc.oneof(
    fc.constantFrom(...Buffer.from('{}[],:"\\u0123456789eE+-. tfn\n\u0001')),
    fc.integer({ min: 0, max: 255 }),
  ),
);

describe('scanning JSON', () => {
  it('accepts what is a document and finds what the pointers find, wherever the chunks are cut', () => {
    fc.assert(
      fc.property(documentText, around, around, pointersOf, cutsOf, (text, before, after, pointers, cuts) => {
        sameAsParse(Buffer.from(before + text + after), pointers, cuts);
      }),
      { numRuns: 3000 },
    );
  });

  it('refuses what is none, wherever the chunks are cut', () => {
    const mutated = fc.tuple(documentText, fc.array(mutation, { minLength: 1, maxLength: 3 }));
    fc.assert(
      fc.property(mutated, pointersOf, cutsOf, ([text, changes], pointers, cuts) => {
        let bytes: Buffer = Buffer.from(text);
        for (const [at, removed, inserted] of changes) {
          const from = at % (bytes.length + 1);
          bytes = Buffer.concat([
            bytes.subarray(0, from),
            Buffer.of(inserted),
            bytes.subarray(from + removed),
          ]);
        }
        sameAsParse(bytes, pointers, cuts);
      }),
      { numRuns: 6000 },
    );
  });

  it('reads bytes that are no UTF-8 in strings, and nowhere else', () => {
    const bytes = fc.uint8Array({ maxLength: 8 });
    fc.assert(
      fc.property(bytes, cutsOf, (inner, cuts) => {
        const key = Buffer.concat([
          Buffer.from('{"\ufffd":1,"'),
          inner,
          Buffer.from('":"'),
          inner,
          Buffer.from('"}'),
        ]);
        sameAsParse(key, ['/\ufffd', '/\ufffd\ufffd', '/'], cuts);
        sameAsParse(inner, [], cuts);
      }),
      { numRuns: 3000 },
    );
  });

  it('takes numbers of any length that a double can hold, and no others', () => {
    const digits = fc.stringMatching(/^[1-9]\d{0,9}$/);
    const limit = String(2n ** 1024n - 2n ** 970n);
    const near = fc.tuple(fc.nat({ max: 308 }), fc.nat({ max: 9 })).map(([at, digit]) => {
      return limit.slice(0, at) + digit + limit.slice(at + 1);
    });
    const spelled = fc
      .tuple(fc.oneof(digits, near), fc.nat({ max: 400 }), fc.integer({ min: -700, max: 700 }))
      .chain(([text, zeros, exponent]) =>
        fc.constantFrom(
          text,
          `-${text}.${'0'.repeat(zeros)}1`,
          `${text}e${exponent}`,
          `0.${'0'.repeat(zeros)}${text}E+${Math.abs(exponent)}`,
          `${text.slice(0, 1)}.${text.slice(1)}0e${text.length - 1}`,
          `${text}${'0'.repeat(zeros)}e-${zeros}`,
        ),
      );
    fc.assert(
      fc.property(spelled, cutsOf, (text, cuts) => sameAsParse(Buffer.from(`[${text}]`), ['/0'], cuts)),
      { numRuns: 4000 },
    );
    expect(scan(limit).ok).toBe(false);
    expect(scan(String(2n ** 1024n - 2n ** 970n - 1n)).ok).toBe(true);
    expect(scanByBytes(`1${'0'.repeat(20_000)}e-20000`, ['']).ok).toBe(true);
    expect(scanByBytes(`1${'0'.repeat(20_000)}e-19692`).ok).toBe(true);
    expect(scanByBytes(`1${'0'.repeat(20_000)}e-19691`).ok).toBe(false);
  });

  it('lets the last of duplicate keys win, also for what lies in the earlier one', () => {
    const text = '{"a":{"b":1},"x":0,"\\u0061":{"c":[1,2]}}';
    const found = scan(text, ['/a/b', '/a/c/1', '/a']);
    expect(found).toMatchObject({ ok: true, document: { start: 0, end: text.length } });
    expect(found.ok && ['/a/b', '/a/c/1', '/a'].map(found.find)).toEqual([
      undefined,
      { start: text.indexOf('2]'), end: text.indexOf('2]') + 1 },
      { start: text.indexOf('{"c'), end: text.length - 1 },
    ]);
  });

  it('nests as deep as foreign JSON may, with a million brackets too', () => {
    const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
    expect(scan(deep(MAX_DEPTH)).ok).toBe(true);
    expect(scan(deep(1_000_000))).toEqual({ ok: false, at: 127, message: 'nested deeper than 127 levels' });
    expect(scan(`${'{"a":'.repeat(128)}1${'}'.repeat(128)}`).ok).toBe(false);
  });

  it.each([
    ['', 0, 'expected a JSON value, found the end'],
    ['prose', 0, "expected a JSON value, found 'p'"],
    ['\ufeff\ufeff1', 3, 'expected a JSON value, found byte 0xef'],
    ['{"a":1}\n\u001b[0m', 8, 'expected nothing after the document, found byte 0x1b'],
    ['[1,]', 3, "expected a JSON value, found ']'"],
    ['[1 2]', 3, "expected ',' or the end of the list or object, found '2'"],
    ['{"a" 1}', 5, "expected ':', found '1'"],
    ['{a:1}', 1, "expected a key in double quotes or '}', found 'a'"],
    ['{"a":1', 6, "expected the rest of a number, ',' or the end of the list or object, found the end"],
    ['["a"', 4, "expected ',' or the end of the list or object, found the end"],
    ['"a\nb"', 2, 'byte 0x0a in a string, unescaped'],
    ['"\\x"', 1, 'bad escape or lone surrogate in a string'],
    ['"\\ud800"', 1, 'bad escape or lone surrogate in a string'],
    ['"abc', 4, 'expected the rest of a string, found the end'],
    ['1.', 2, 'expected a digit'],
    ['1e400', 5, 'number outside the range of a double'],
    ['tru', 3, 'expected a JSON value, found the end'],
  ])('says of %j at %i: %s', (text, at, message) => {
    expect(scan(text)).toEqual({ ok: false, at, message });
    expect(scanByBytes(text)).toEqual({ ok: false, at, message });
  });

  it('stops at the first byte that cannot stand there', () => {
    const scanner = createJsonScanner([]);
    expect(scanner.push(Buffer.from('[1'))).toBe(true);
    expect(scanner.push(Buffer.from('x'))).toBe(false);
    expect(scanner.push(Buffer.from(']'))).toBe(false);
    expect(scanner.end()).toEqual({
      ok: false,
      at: 2,
      message: "expected ',' or the end of the list or object, found 'x'",
    });
  });

  it('refuses a pointer that is none', () => {
    expect(() => createJsonScanner(['a'])).toThrow(new RangeError("pointer 'a' does not begin with '/'"));
  });

  it('holds no more than a few bytes of a key or a number that does not end', () => {
    const scanner = createJsonScanner(['/short']);
    const chunk = Buffer.alloc(1 << 20, 'k');
    const before = process.memoryUsage().arrayBuffers;
    scanner.push(Buffer.from('{"'));
    for (let i = 0; i < 256; i++) scanner.push(chunk);
    scanner.push(Buffer.from('":'));
    for (let i = 0; i < 64; i++) scanner.push(Buffer.alloc(1 << 20, '7'));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(100 << 20);
    scanner.push(Buffer.from('e-67108864}'));
    const end = scanner.end();
    expect(end.ok && end.find('/short')).toBeUndefined();
  });
});

describe('one scanner', () => {
  const pointers = ['/a', '/key/0', '/0', '', '/a~1b'];

  it('reads one document after the other as a scanner for each does', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(documentText, fc.constantFrom('{"a":', 'x', '{"a":1}{')), { maxLength: 6 }),
        (texts) => {
          const scanner = createJsonScanner(pointers);
          let offset = 0;
          for (const text of texts) {
            const bytes = Buffer.from(text);
            scanner.restart(offset);
            for (let i = 0; i < bytes.length; i += 3) scanner.push(bytes.subarray(i, i + 3));
            const shared = scanner.end();
            const own = scan(bytes, pointers);
            expect(shared.ok).toBe(own.ok);
            if (shared.ok && own.ok) {
              for (const pointer of pointers) {
                const range = own.find(pointer);
                const moved = range && { start: range.start + offset, end: range.end + offset };
                expect(shared.find(pointer)).toEqual(moved);
              }
            } else if (!shared.ok && !own.ok) expect(shared).toEqual({ ...own, at: own.at + offset });
            offset += bytes.length + 1;
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('tells the items of a list as they end, and what stands in each', () => {
    fc.assert(
      fc.property(fc.array(documentText, { maxLength: 6 }), fc.integer({ min: 1, max: 7 }), (texts, step) => {
        const bytes = Buffer.from(`[${texts.join(' ,')}]`);
        const told: unknown[] = [];
        const read = ({ start, end }: { start: number; end: number }) =>
          decodeUtf8(bytes.subarray(start, end));
        const onItem = ({ range, find }: Match): void => {
          told.push([
            read(range),
            ...pointers.map((pointer) => find(pointer)).map((part) => part && read(part)),
          ]);
        };
        const scanner = createListScanner(pointers, onItem);
        for (let i = 0; i < bytes.length; i += step) scanner.push(bytes.subarray(i, i + step));
        const end = scanner.end();
        if (!end.ok) return;
        const expected = texts.map((text) => {
          const own = scan(Buffer.from(text), pointers);
          if (!own.ok) throw new Error('an item that is no document');
          const part = ({ start, end: stop }: { start: number; end: number }) =>
            decodeUtf8(Buffer.from(text).subarray(start, stop));
          return [
            part(own.document),
            ...pointers.map((pointer) => own.find(pointer)).map((each) => each && part(each)),
          ];
        });
        expect(told).toEqual(expected);
      }),
      { numRuns: 300 },
    );
  });
});
