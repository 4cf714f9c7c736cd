/** Records picked out of what a program printed: jsonl, select, and what pointers then apply to. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import type { SubprocessOutput } from '../../lib/blueprint/output-schema.ts';
import { type JsonValue, MAX_STORED_DEPTH, parseJson } from '../../lib/json.ts';
import type { Outcome } from '../../lib/task.ts';
import type { Ended } from '../../lib/worker/decision.ts';
import { bytesOf } from '../../lib/worker/file-range.ts';
import { normalizeFiles } from '../../lib/worker/large-output.ts';
import { temporaryFolder } from '../support/ports.ts';

const folder = temporaryFolder();

/** What the output comes to, its value made whatever its size. */
async function outcome(
  stdout: string | Buffer,
  output: SubprocessOutput,
  more: Partial<Ended> & { readonly stderr?: string } = {},
): Promise<Outcome> {
  const { stderr = '', ...ended } = more;
  const dir = mkdtempSync(join(folder, 'out-'));
  const path = (name: string, content: string | Buffer) => {
    writeFileSync(join(dir, name), content);
    return { path: join(dir, name) };
  };
  const read = await normalizeFiles({
    exit: { code: 0, signal: null },
    model: null,
    cause: null,
    ...ended,
    output,
    stdout: path('stdout', stdout),
    stderr: path('stderr', stderr),
  });
  const value =
    'value' in read ? read.value : parseJson((await bytesOf(read.content())).toString(), MAX_STORED_DEPTH);
  return { ...read, value };
}

const EVENTS = [
  { type: 'start', id: 'a' },
  { type: 'item', item: { type: 'note', text: 'not this' } },
  { type: 'item', item: { type: 'message', text: 'one' } },
  { type: 'end', usage: { input_tokens: 1, output_tokens: 2 }, status: 'completed' },
  { type: 'start', id: 'b' },
  { type: 'item', item: { type: 'message', text: 'two' } },
  { type: 'item', item: { type: 'message', text: 'three' } },
  { type: 'end', usage: { input_tokens: 10, output_tokens: 20 }, status: 'completed' },
];
const LINES = EVENTS.map((event) => `${JSON.stringify(event)}\n`).join('');
const MESSAGE = { '/type': 'item', '/item/type': 'message' };

describe.each([
  ['lines', 'jsonl', LINES],
  ['a list', 'json', JSON.stringify(EVENTS, null, 1)],
  ['a list, its format not declared', null, JSON.stringify(EVENTS)],
] as const)('records as %s', (_, format, stdout) => {
  it.each<[string, SubprocessOutput, JsonValue]>([
    ['the last that matches', { select: { where: MESSAGE }, result_ptr: '/item/text' }, 'three'],
    ['the first', { select: { where: MESSAGE, take: 'first' }, result_ptr: '/item/text' }, 'one'],
    ['the only one', { select: { where: { '/id': 'b' }, take: 'only' } }, { type: 'start', id: 'b' }],
    [
      'all of a part',
      { select: { where: MESSAGE, take: 'all', ptr: '/item/text' } },
      ['one', 'two', 'three'],
    ],
    [
      'joined',
      { select: { where: MESSAGE, take: 'all', ptr: '/item/text', join: ' "+" ' } },
      'one "+" two "+" three',
    ],
    [
      'after the last start',
      {
        select: {
          where: MESSAGE,
          take: 'all',
          ptr: '/item/text',
          join: '',
          after_last: { '/type': 'start' },
        },
      },
      'twothree',
    ],
    ['every record', { select: { where: {}, take: 'all', ptr: '/type' } }, EVENTS.map(({ type }) => type)],
    ['by a part that must be there', { select: { where: {}, ptr: '/id' } }, 'b'],
    [
      'several by name',
      {
        select: {
          text: { where: MESSAGE },
          end: { where: { '/type': 'end' } },
          none: { where: { '/type': 'x' } },
        },
        result_ptr: '/text/item/text',
        ok_from: { ptr: '/end/status', equals: 'completed' },
      },
      'three',
    ],
    [
      'several by name, as a whole',
      { select: { id: { where: {}, ptr: '/id', take: 'first' }, none: { where: { '/type': 'x' } } } },
      { id: 'a' },
    ],
  ])('give %s', async (_, output, value) => {
    expect(await outcome(stdout, { ...output, format })).toMatchObject({
      ok: true,
      value,
      reason: null,
      warnings: [],
    });
  });

  it('sum usage over records and count turns', async () => {
    const { stats } = await outcome(stdout, {
      format,
      select: { ends: { where: { '/type': 'end' }, take: 'all' } },
      stats: { usage_ptr: '/ends', num_turns_ptr: '/ends' },
    });
    expect(stats).toMatchObject({
      usage: { input_tokens: 11, output_tokens: 22, total_tokens: 33 },
      num_turns: 2,
    });
  });

  it.each<[string, SubprocessOutput, string, string]>([
    [
      'a selection that matches nothing',
      { select: { where: { '/type': 'x' } } },
      'result_missing',
      'output.select matched none of 8 records: {"/type":"x"}',
    ],
    [
      'a named one',
      { select: { text: { where: { '/type': 'x' }, ptr: '/y' } }, result_ptr: '/text' },
      'result_missing',
      `result_ptr '/text' not found in what output.select took, which is an empty object; selection 'text' matched none of 8 records: {"/type":"x"} with /y`,
    ],
    [
      'more than the only one',
      { select: { where: MESSAGE, take: 'only' } },
      'result_missing',
      'output.select takes only one record, and 3 match',
    ],
    [
      'what cannot be joined',
      { select: { where: { '/type': 'end' }, take: 'all', ptr: '/usage', join: '' } },
      'result_missing',
      'output.select joins texts, and a record has another value there',
    ],
  ])('fail for %s', async (_, output, reason, message) => {
    expect(await outcome(stdout, { ...output, format })).toMatchObject({ ok: false, reason, message });
  });
});

describe('lines', () => {
  it('without a selection are the list of all documents', async () => {
    expect((await outcome(LINES, { format: 'jsonl' })).value).toEqual(EVENTS);
    expect(await outcome('1\r\n\n"a"\n [] \t\nnull', { format: 'jsonl', result_ptr: '/1' })).toMatchObject({
      ok: true,
      value: 'a',
      warnings: [],
    });
  });

  it('that hold no JSON are skipped, counted and told', async () => {
    const stdout = `loading…\n${LINES}{"type":"item"\n`;
    expect(
      await outcome(stdout, { format: 'jsonl', select: { where: MESSAGE, ptr: '/item/text' } }),
    ).toMatchObject({
      ok: true,
      value: 'three',
      warnings: ["2 lines of stdout that are no JSON were skipped; line 1: expected a JSON value, found 'l'"],
    });
  });

  it('of control characters are skipped and told', async () => {
    const read = await outcome('\u001b\n1\n', { format: 'jsonl' });
    expect(read).toMatchObject({
      value: [1],
      warnings: [expect.stringMatching(/^a line of stdout that is no JSON was skipped/)],
    });
  });

  it.each([
    ['', 'stdout is empty, expected JSON documents, one a line'],
    [' \n\n', 'stdout holds only white space, expected JSON documents, one a line'],
    [
      'Error: no key\nbye\n',
      "no line of stdout is a JSON document; line 1: expected a JSON value, found 'E'",
    ],
    ['{\n"a": 1\n}', 'no line of stdout is a JSON document; line 1: '],
  ])('of %j are not JSON', async (stdout, message) => {
    const read = await outcome(stdout, { format: 'jsonl', select: { where: {} } });
    expect(read).toMatchObject({
      ok: false,
      reason: 'stdout_not_json',
      value: { raw: stdout.trimEnd(), stderr: '' },
    });
    expect(read.message).toContain(message);
  });

  it('keep digits, characters and order of keys of what is selected', async () => {
    const record = '{"z":1.0,"a":9007199254740993,"e":"\\u00e9\\ud83d\\ude00漢"}';
    const { value } = await outcome(`${record}\n`, { format: 'jsonl', select: { where: { '/z': 1 } } });
    expect(JSON.stringify(value)).toBe('{"z":1.0,"a":9007199254740993,"e":"é😀漢"}');
  });

  it.each<[string, JsonValue, boolean]>([
    ['"\\u0061"', 'a', true],
    ['1.0', 1, true],
    ['1e2', 100, true],
    ['null', null, true],
    ['"1"', 1, false],
    ['true', 'true', false],
    ['{"b":1}', 'a', false],
    [`"${'a'.repeat(100_000)}"`, 'a', false],
  ])('with %s match %j: %s', async (written, wanted, matches) => {
    const { ok } = await outcome(`{"k":${written}}`, {
      format: 'jsonl',
      select: { where: { '/k': wanted } },
    });
    expect(ok).toBe(matches);
  });

  it('are as the whole text parsed line by line, wherever chunks end', async () => {
    const text = fc.array(
      fc.oneof(fc.json({ maxDepth: 2 }), fc.constantFrom('x', '', '  ', `{"k":"${'é漢'.repeat(60_000)}"}`)),
      { maxLength: 8 },
    );
    await fc.assert(
      fc.asyncProperty(text, async (lines) => {
        const wanted = lines.flatMap((line) => {
          try {
            return [parseJson(line.trim())];
          } catch {
            return [];
          }
        });
        const read = await outcome(lines.join('\n'), { format: 'jsonl' });
        if (wanted.length > 0) expect(read.value).toEqual(wanted);
        else expect(read.reason).toBe('stdout_not_json');
      }),
      { numRuns: 60 },
    );
  });
});

test('records that are lists are matched by their indices', async () => {
  const output: SubprocessOutput = { select: { where: { '/0': 'b' }, ptr: '/1' } };
  expect(await outcome('[["b",1],["a",2],["b",3],["c",4]]', output)).toMatchObject({ ok: true, value: 3 });
  expect(await outcome('["b",7]', { ...output, format: 'jsonl' })).toMatchObject({ ok: true, value: 7 });
});

test('white space before a record may be cut anywhere', async () => {
  for (const space of [1, 4, 300_000]) {
    const before = '1\n'.padStart(256 * 1024 - 2, ' ');
    const read = await outcome(`${before}${' '.repeat(space)}12345\n`, { format: 'jsonl' });
    expect(read.value).toEqual([1, 12345]);
  }
});

test('a selection may have the name of a field', async () => {
  for (const name of ['where', 'take', 'after_last', 'ptr', 'join']) {
    const select = { [name]: { where: { '/id': 'a' } } };
    expect(await outcome(LINES, { format: 'jsonl', select, result_ptr: `/${name}/id` })).toMatchObject({
      value: 'a',
    });
  }
});

test('a million records are taken in little memory', async () => {
  const count = 1_000_000;
  const read = await outcome('1\n'.repeat(count), { format: 'jsonl' });
  expect(read.value).toHaveLength(count);
}, 60_000);

describe('one document that is no list', () => {
  it('is the only record', async () => {
    const output: SubprocessOutput = {
      format: 'json',
      select: { where: { '/type': 'result' }, take: 'only' },
      result_ptr: '/r',
    };
    expect(await outcome('{"type":"result","r":[1]}', output)).toMatchObject({ ok: true, value: [1] });
    expect(await outcome('{"type":"other","r":[1]}', output)).toMatchObject({
      ok: false,
      reason: 'result_missing',
    });
  });

  it('that is not JSON fails as without a selection', async () => {
    const read = await outcome('oops', { select: { where: {} }, result_ptr: '/r' });
    expect(read).toMatchObject({ ok: false, reason: 'stdout_not_json', value: { raw: 'oops', stderr: '' } });
    expect(read.message).toMatch(/^result_ptr '\/r' cannot be evaluated: stdout is not JSON/);
  });
});

test('a child that was ended or died does not pass, and keeps what it had printed', async () => {
  const output: SubprocessOutput = { format: 'jsonl', select: { where: MESSAGE }, result_ptr: '/item/text' };
  expect(await outcome(LINES, output, { cause: 'timed_out' })).toMatchObject({
    ok: false,
    reason: 'timed_out',
    value: 'three',
  });
  expect(await outcome('', output, { exit: { code: 7, signal: null }, stderr: 'no key' })).toMatchObject({
    reason: 'exit_nonzero',
    message: 'exit code 7; stderr ends with: no key',
  });
});

test('a record of 40 MB among 200 MB that are not selected is told without being held', async () => {
  const noise = `{"type":"delta","text":"${'n'.repeat(1_000_000)}"}\n`.repeat(200);
  const text = 'T'.repeat(40_000_000);
  const stdout = Buffer.from(`${noise}{"text":"${text}","type":"end","n":1}\n`);
  const output: SubprocessOutput = {
    format: 'jsonl',
    select: { end: { where: { '/type': 'end' } } },
    result_ptr: '/end/text',
    ok_from: { ptr: '/end/n', equals: 1 },
  };
  const read = await outcome(stdout, output);
  expect(read).toMatchObject({ ok: true, warnings: [] });
  expect(read.value === text).toBe(true);
});
