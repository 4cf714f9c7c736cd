import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SubprocessOutput } from '../../lib/blueprint/output-schema.ts';
import { canonicalJson, type JsonObject, MAX_STORED_DEPTH, parseJson } from '../../lib/json.ts';
import type { ExitStatus, Outcome } from '../../lib/task.ts';
import type { Ended } from '../../lib/worker/decision.ts';
import { bytesOf, CHUNK_BYTES, textBefore, textChunksOf, trimmedSize } from '../../lib/worker/file-range.ts';
import {
  IN_MEMORY_BYTES,
  type LargeOutcome,
  normalizeFiles,
  PART_BYTES,
} from '../../lib/worker/large-output.ts';
import { normalize } from '../../lib/worker/normalize.ts';
import { decodeUtf8, trimEnd } from '../../lib/worker/text.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();
const PASSED: ExitStatus = { code: 0, signal: null };

interface Run extends Partial<Ended> {
  readonly stdout: string | Buffer;
  readonly stderr?: string | Buffer;
}

function file(content: string | Buffer): { path: string; size_bytes: number } {
  const path = join(mkdtempSync(join(folder, 'out-')), 'stream');
  writeFileSync(path, content);
  return { path, size_bytes: Buffer.byteLength(content) };
}

function fromFiles({ stdout, stderr = '', ...more }: Run): Promise<LargeOutcome> {
  const ended = { exit: PASSED, output: null, model: null, cause: null, ...more };
  return normalizeFiles({ ...ended, stdout: file(stdout), stderr: file(stderr) });
}

function inMemory({ stdout, stderr = '', ...more }: Run): Outcome {
  const ended = { exit: PASSED, output: null, model: null, cause: null, ...more };
  return normalize({ ...ended, stdout: Buffer.from(stdout), stderr: decodeUtf8(Buffer.from(stderr)) });
}

async function textOf(outcome: LargeOutcome): Promise<string> {
  if ('value' in outcome) return canonicalJson(outcome.value);
  return (await bytesOf(outcome.content())).toString();
}

/** The outcome with its value made, whatever its size. */
async function whole(outcome: LargeOutcome): Promise<JsonObject> {
  const { content: _, ...rest } = { content: undefined, ...outcome };
  return { ...rest, value: parseJson(await textOf(outcome), MAX_STORED_DEPTH) } as unknown as JsonObject;
}

/** The two parsers say the same in different words. */
function withoutWords(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (_, item) =>
    typeof item === 'string' ? item.replace(/stdout is not JSON: .*/s, 'stdout is not JSON') : item,
  );
}

const ENDINGS: readonly Partial<Ended>[] = [
  {},
  { exit: { code: 3, signal: null } },
  { exit: { code: null, signal: 'SIGKILL' } },
  { cause: 'timed_out', detail: 'after 2 s', exit: { code: null, signal: 'SIGTERM' } },
  { cause: 'cancelled' },
];
const OUTPUTS: readonly (SubprocessOutput | null)[] = [
  null,
  {},
  { format: 'json' },
  { result_ptr: '/r' },
  { ok_from: '/ok' },
  { format: 'json', result_ptr: '/r', ok_from: '/ok' },
  {
    result_ptr: '/r/0/x',
    ok_from: 'exit_code',
    stats: { usage_ptr: '/u', model_ptr: '/m', num_turns_ptr: '/n' },
  },
];
const STDOUTS = [
  '',
  ' \n',
  'plain text\nsays this \n',
  '{"r":[{"x":"said\\nlast line"}],"ok":true,"u":{"input_tokens":1},"m":"big","n":2}',
  ' \ufeff{"ok":false,"r":null}\u0085',
  '{"ok":"true","r":{"a":1.0}}',
  '{"r":1}{}',
  '[1,2,3]',
  '12345678901234567890',
  '"text"',
];

describe('output that is read from files', () => {
  it('means the same as output in memory, whatever is declared and however the child ended', async () => {
    const words = `${'a line of stderr\n'.repeat(IN_MEMORY_BYTES / 17 + 1)}last words\n`;
    const stderr = file(words);
    for (const stdout of STDOUTS) {
      const printed = file(stdout);
      for (const output of OUTPUTS) {
        for (const more of ENDINGS) {
          const ended = { exit: PASSED, model: 'declared', cause: null, ...more, output };
          const expected = normalize({ ...ended, stdout: Buffer.from(stdout), stderr: words });
          const large = await normalizeFiles({ ...ended, stdout: printed, stderr });
          const { value, ...rest } = expected;
          const { content, ...told } = { content: undefined, value: undefined, ...large };
          const context = `${JSON.stringify(stdout)} ${JSON.stringify(output)} ${JSON.stringify(more)}`;
          expect(withoutWords({ ...told, value: undefined }), context).toEqual(withoutWords(rest));
          if (content === undefined) expect(large, context).toHaveProperty('value', value);
          else if (more === ENDINGS[0])
            expect(withoutWords(await whole(large)), context).toEqual(withoutWords(expected));
        }
      }
    }
  });

  it('is a value where that is small, and content from its beginning each time where it is large', async () => {
    const large = await fromFiles({
      stdout: `{"pad":"${'x'.repeat(IN_MEMORY_BYTES)}","r":{"a":1.0}}`,
      output: { result_ptr: '/r' },
    });
    expect(large).toMatchObject({ ok: true, value: { a: parseJson('1.0') } });
    const all = await fromFiles({ stdout: `[${'1.50, '.repeat(IN_MEMORY_BYTES / 5)}0]\n` });
    if (!('content' in all)) throw new Error('expected content');
    const [first, second] = [await bytesOf(all.content()), await bytesOf(all.content())];
    expect(first.equals(second)).toBe(true);
    expect(first.toString()).toBe(`[${'1.50, '.repeat(IN_MEMORY_BYTES / 5)}0]`);
  });

  it('is told as written, as valid UTF-8', async () => {
    const bad = Buffer.from([0xff, 0xe2, 0x82]);
    const stdout = Buffer.concat([
      Buffer.from(' {"r":[ "'),
      Buffer.from('é😀'.repeat(IN_MEMORY_BYTES / 6)),
      bad,
      Buffer.from('" ],"r2":1}'),
    ]);
    const outcome = await fromFiles({ stdout, output: { result_ptr: '/r' } });
    expect(await textOf(outcome)).toBe(`[ "${'é😀'.repeat(IN_MEMORY_BYTES / 6)}\ufffd\ufffd" ]`);
  });

  it('is text without trailing white space, beside stderr as it is', async () => {
    const long = `  ${'naïve 😀\u0000"\\\n'.repeat(500_000)}`;
    const run = {
      stdout: Buffer.concat([Buffer.from(long), Buffer.from([0xe2, 0x80]), Buffer.from('\u2003\u0085 \n')]),
      stderr: ' e\n',
    };
    const outcome = await fromFiles(run);
    expect(await textOf(outcome)).toBe(canonicalJson(inMemory(run).value));
    const failed = await fromFiles({ ...run, output: { format: 'json' } });
    expect(Object.keys((await whole(failed)).value as JsonObject)).toEqual(['parse_error', 'raw', 'stderr']);
  });

  it('quotes the last line of a large text', async () => {
    const stdout = `${'x'.repeat(IN_MEMORY_BYTES)}\n\nthe end of it\n\n`;
    const { message, reason } = await fromFiles({ stdout, exit: { code: 1, signal: null } });
    expect({ message, reason }).toEqual({
      reason: 'exit_nonzero',
      message: 'exit code 1; stdout says: the end of it',
    });
  });

  it('keeps the whole document beside the error of a missing result', async () => {
    const document = `{"a":"${'x'.repeat(IN_MEMORY_BYTES)}"}`;
    const outcome = await fromFiles({ stdout: document, stderr: 'e', output: { result_ptr: '/r' } });
    const error = "result_ptr '/r' not found in stdout JSON";
    expect(outcome.message).toBe(`${error}, which is an object of ${document.length} bytes`);
    expect(await textOf(outcome)).toBe(`{"error":"${error}","raw":${document},"stderr":"e"}`);
  });

  it('does not look into parts that are large', async () => {
    const part = (open: string, close: string) => `${open}"${'y'.repeat(PART_BYTES)}"${close}`;
    const stdout = `{"pad":"${'x'.repeat(IN_MEMORY_BYTES)}","ok":${part('[', ']')},"u":${part('{"total_tokens":1,"a":', '}')},"m":${part('', '')}}`;
    const stats = { usage_ptr: '/u', model_ptr: '/m' };
    expect(await fromFiles({ stdout, output: { ok_from: '/ok', stats }, model: 'declared' })).toMatchObject({
      ok: false,
      message: `ok_from '/ok' is a list of ${PART_BYTES + 4} bytes, not the boolean true`,
      stats: { worker_kind: 'subprocess', model: 'declared', adapter_data: { exit_code: 0 } },
    });
  });

  it.each([
    ['colours', `${'{"a":1}'.padEnd(IN_MEMORY_BYTES + 1)}\u001b[0m`, 'escape character U+001B near the end'],
    ['JSON lines', '{"a":1}\n'.repeat(IN_MEMORY_BYTES / 8 + 1), 'at least 1000 JSON documents, one per line'],
    ['a code fence', `\`\`\`json\n${' '.repeat(IN_MEMORY_BYTES)}\n\`\`\``, 'Markdown code fence'],
    ['white space', ' '.repeat(IN_MEMORY_BYTES + 1), 'stdout holds only white space'],
    [
      'a broken end',
      `[${'1,'.repeat(IN_MEMORY_BYTES)}`,
      `expected a JSON value, found the end at byte ${2 * IN_MEMORY_BYTES + 1}`,
    ],
  ])('with %s gets the hint', async (_, stdout, hint) => {
    const outcome = await fromFiles({ stdout, output: { format: 'json' } });
    expect(outcome).toMatchObject({
      ok: false,
      reason: 'stdout_not_json',
      message: expect.stringContaining(hint),
    });
  });
});

describe('the text of a file', () => {
  const sequences = fc.constantFrom(
    ...['é', '€', '😀', '\ufeff', '"', '\n'].map((text) => [...Buffer.from(text)]),
    ...[[0x80], [0xc3], [0xe2, 0x82], [0xf0, 0x9f, 0x98], [0xed, 0xa0, 0x80], [0xf5], [0xff], [0xc0, 0xaf]],
  );
  const bytes = fc.array(sequences, { maxLength: 12 }).map((all) => Buffer.from(all.flat()));
  const cut = fc.tuple(bytes, fc.integer({ min: -20, max: 4 }));

  it('is the same in chunks as at once, whatever is cut', async () => {
    await fc.assert(
      fc.asyncProperty(cut, bytes, async ([between, offset], end) => {
        const before = Buffer.alloc(CHUNK_BYTES + offset, 'x');
        const content = Buffer.concat([before, between, Buffer.alloc(30, 'y'), end]);
        const { path, size_bytes } = file(content);
        const text = await bytesOf(textChunksOf(path, { start: 0, end: size_bytes }));
        expect(text.toString()).toBe(decodeUtf8(content));
      }),
      { numRuns: 300 },
    );
  });

  it('stands in a large value as JSON.stringify writes it', async () => {
    const unit = Buffer.concat([
      Buffer.from('a "b" \\ \t\r\n\u0001\u007f é€😀\u2028 '),
      Buffer.from([0xe2, 0x82, 0x41, 0xff]),
    ]);
    const stdout = Buffer.concat(Array.from({ length: IN_MEMORY_BYTES / unit.length + 1 }, () => unit));
    const large = await fromFiles({ stdout });
    if (!('content' in large)) throw new Error('expected content');
    const raw = decodeUtf8(stdout);
    expect((await bytesOf(large.content())).toString()).toBe(JSON.stringify({ raw, stderr: '' }));
  });
});

describe('the end of a file', () => {
  const spaces = fc.string({
    unit: fc.constantFrom(' ', '\n', '\u0085', '\u00a0', '\u2003', '\u3000'),
    maxLength: 4,
  });

  it('is trimmed as text is, over any distance', async () => {
    const end = fc.tuple(fc.uint8Array({ maxLength: 6 }), spaces, fc.constantFrom(0, 1, 100_000), spaces);
    await fc.assert(
      fc.asyncProperty(end, async ([bytes, before, times, unit]) => {
        const content = Buffer.concat([bytes, Buffer.from(before), Buffer.from(unit.repeat(times))]);
        const { path, size_bytes } = file(content);
        const size = await trimmedSize(path, size_bytes);
        expect(decodeUtf8(content.subarray(0, size))).toBe(trimEnd(decodeUtf8(content)));
      }),
      { numRuns: 200 },
    );
  });

  it('begins with a whole character', async () => {
    const { path, size_bytes } = file('😀😀');
    for (const max of [4, 5, 6, 7]) expect(await textBefore(path, size_bytes, max)).toBe('😀');
    expect(await textBefore(path, size_bytes, 100)).toBe('😀😀');
  });
});
