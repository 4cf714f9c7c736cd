import { describe, expect, it } from 'vitest';
import type { StreamMode } from '../../lib/blueprint/schema.ts';
import type { ExitStatus } from '../../lib/task.ts';
import {
  createStreamReader,
  noFinalEvent,
  type StreamReport,
  streamOutcome,
} from '../../lib/worker/stream.ts';
import { type FinalEvent, parseEvent, type StreamEvent } from '../../lib/worker/stream-event.ts';

const MIB = 1024 * 1024;
const OK = { code: 0, signal: null };

function final(value: unknown, ok = true): string {
  return JSON.stringify({ type: 'final', content: { kind: 'inline', value }, ok });
}

function frame(text: string): Buffer {
  const body = Buffer.from(text);
  const header = Buffer.alloc(4);
  header.writeUInt32BE(body.length);
  return Buffer.concat([header, body]);
}

function read(
  mode: StreamMode,
  bytes: Uint8Array,
  size = bytes.length,
): { events: StreamEvent[]; report: StreamReport } {
  const events: StreamEvent[] = [];
  const reader = createStreamReader(mode, (event) => events.push(event));
  for (let at = 0; at < bytes.length; at += size) {
    const chunk = Uint8Array.from(bytes.subarray(at, at + size));
    reader.push(chunk);
    chunk.fill(0x78);
  }
  return { events, report: reader.end() };
}

describe('reading a stream', () => {
  const progress = '{"type":"progress","stage":"☕ 😀"}';
  const streams: [StreamMode, Buffer][] = [
    [
      'ndjson_lines',
      Buffer.from(`\ufeff${progress}\r\n\n garbage \r\n  ${final('é\r')}\t\r\n${final(2, false)}`),
    ],
    [
      'sse_events',
      Buffer.from(
        `\ufeffdata: ${progress}\r\n\r\n: c\ndata:{"type":"final","ok":true,\ndata: "content":{"kind":"inline","value":"é"}}\n\ndata: [DONE]\n`,
      ),
    ],
    ['length_prefixed', Buffer.concat([frame(progress), frame('bad'), frame(final('é')), frame(final(2))])],
  ];

  it.each(streams)('gives the same for %s however it is cut', (mode, bytes) => {
    const whole = read(mode, bytes);
    expect(whole.events.length).toBeGreaterThan(1);
    expect(whole.report).toMatchObject({ skipped: 1, broken: null });
    for (const size of [1, 2, 3, 5, 7, 64]) expect(read(mode, bytes, size)).toEqual(whole);
  });

  it('names the first thing skipped', () => {
    const { report } = read('ndjson_lines', Buffer.from(`${final(1)}\n{"type":"Final"}\nnope\n`));
    expect(report).toEqual({
      skipped: 2,
      broken: null,
      seen: true,
      warnings: [
        'output that is not an event was skipped 2 times; line 2: type is "Final" (a string), expected one of progress, partial, artifact, final',
      ],
    });
  });

  it('reads bad UTF-8 as U+FFFD', () => {
    const bytes = Buffer.concat([Buffer.from(final('a')).subarray(0, -14), Buffer.from([0xff])]);
    const { events, report } = read(
      'ndjson_lines',
      Buffer.concat([bytes, Buffer.from('\n'), Buffer.from(final(1))]),
    );
    expect(events).toHaveLength(1);
    expect(report.skipped).toBe(1);
  });

  it.each([
    ['ndjson_lines', `${final(1)}\n`, '\n'],
    ['sse_events', `data: ${final(1)}\n\ndata: `, '\n\ndata: '],
  ] as const)('drops a line over 16 MiB of %s without keeping it', (mode, before, after) => {
    const bytes = Buffer.concat([
      Buffer.from(before),
      Buffer.alloc(100 * MIB, 'a'),
      Buffer.from(after),
      Buffer.from(final(2)),
    ]);
    const started = performance.now();
    const held = process.memoryUsage().arrayBuffers;
    const events: StreamEvent[] = [];
    const reader = createStreamReader(mode, (event) => events.push(event));
    let peak = 0;
    for (let at = 0; at < bytes.length; at += 65536) {
      reader.push(bytes.subarray(at, at + 65536));
      peak = Math.max(peak, process.memoryUsage().arrayBuffers - held);
    }
    expect(reader.end()).toMatchObject({
      skipped: 1,
      warnings: [expect.stringContaining('longer than 16777216 bytes')],
    });
    expect(events).toHaveLength(2);
    expect(peak).toBeLessThan(80 * MIB);
    expect(performance.now() - started).toBeLessThan(3000);
  });

  it('takes an event of exactly 16 MiB in every mode', () => {
    const text = final('a'.repeat(16 * MIB - final('').length));
    expect(read('ndjson_lines', Buffer.from(`${text}\n`), 65536).events).toHaveLength(1);
    expect(read('length_prefixed', frame(text), 65536).events).toHaveLength(1);
  });

  it.each([
    [
      'a length of 0',
      Buffer.alloc(4),
      'frame 2 has length 0, allowed are 1 to 16777216; reading stopped there',
    ],
    [
      'a length over 16 MiB',
      Buffer.from([1, 0, 0, 1]),
      'frame 2 has length 16777217, allowed are 1 to 16777216; reading stopped there',
    ],
    ['text for a header', Buffer.from('{"type":'), 'its header is the text "{\\"ty"'],
    [
      'a cut header',
      Buffer.from([0, 0]),
      'frame 2 is cut off within its 4-byte header; reading stopped there',
    ],
    [
      'a cut payload',
      Buffer.from([0, 0, 0, 9, 1, 2]),
      'frame 2 is cut off after 2 of 9 bytes; reading stopped there',
    ],
  ])('stops at %s', (_, bad, warning) => {
    for (const size of [1, 1000]) {
      const { events, report } = read('length_prefixed', Buffer.concat([frame(final(1)), bad]), size);
      expect(events).toHaveLength(1);
      expect(report.warnings).toEqual([expect.stringContaining(warning)]);
      expect(report.broken).toBe(report.warnings[0]);
    }
  });

  it('reads many small events fast', () => {
    const bytes = Buffer.from('{"type":"progress","stage":"step","note":"working"}\n'.repeat(200_000));
    const started = performance.now();
    expect(read('ndjson_lines', bytes, 65536).events).toHaveLength(200_000);
    expect(bytes.length / 1e6 / ((performance.now() - started) / 1000)).toBeGreaterThan(5);
  });
});

describe('one event', () => {
  it.each([
    ['{"type":"progress","stage":"s","more":1}', { type: 'progress', stage: 's', note: null }],
    [
      '{"type":"artifact","name":"n","content":{"kind":"file_ref","path":"/p","size_hint":18446744073709551615}}',
      {
        type: 'artifact',
        name: 'n',
        content: {
          kind: 'file_ref',
          path: '/p',
          mime: null,
          size_hint: JSON.rawJSON('18446744073709551615'),
        },
      },
    ],
    [
      '{"type":"partial","chunk":{"kind":"inline","value":null}}',
      { type: 'partial', chunk: { kind: 'inline', value: null } },
    ],
  ])('%s', (text, event) => {
    expect(parseEvent(text)).toEqual({ ok: true, event });
  });

  it.each([
    ['[1]', '"[1]" is not a JSON object'],
    ['{}', 'type is missing, expected one of progress, partial, artifact, final'],
    [
      '{"type":"toString"}',
      'type is "toString" (a string), expected one of progress, partial, artifact, final',
    ],
    [
      '{"type":"progress","note":1}',
      'stage is missing, expected a string; note is 1 (a number), expected a string',
    ],
    [
      '{"type":"final","ok":"true"}',
      'ok is "true" (a string), expected a boolean; content is missing, expected an object',
    ],
    [
      '{"type":"final","ok":true,"content":{"kind":"inline"}}',
      'content.value is missing, expected any JSON value',
    ],
    [
      '{"type":"final","ok":true,"content":{"kind":"x"}}',
      'content.kind is "x" (a string), expected inline or file_ref',
    ],
    [
      '{"type":"partial","chunk":{"kind":"file_ref","path":"p","size_hint":1.0}}',
      'chunk.size_hint is 1.0 (a number), expected an unsigned integer',
    ],
  ])('%s is refused', (text, message) => {
    expect(parseEvent(text)).toEqual({ ok: false, message });
  });
});

describe('the outcome of a stream', () => {
  const event = (value: string, ok = true): FinalEvent => ({
    type: 'final',
    content: { kind: 'inline', value },
    ok,
  });
  const exit3: ExitStatus = { code: 3, signal: null };
  const base = { exit: OK, cause: null, model: null, skipped: 0, warnings: [] };

  it('passes with a final that is ok and exit code 0, with its warnings', () => {
    expect(streamOutcome({ ...base, lastFinal: event('v'), model: 'm', warnings: ['w'] })).toEqual({
      ok: true,
      reason: null,
      message: null,
      value: 'v',
      stats: { worker_kind: 'subprocess', model: 'm', adapter_data: { exit_code: 0 } },
      warnings: ['w'],
    });
  });

  it.each([
    ['exit_nonzero', { lastFinal: event('v'), exit: exit3 }, 'exit code 3; stdout says: v'],
    [
      'signalled',
      { lastFinal: event('v'), exit: { code: null, signal: 'SIGSEGV' } },
      'killed by SIGSEGV; stdout says: v',
    ],
    ['timed_out', { lastFinal: event(''), cause: 'timed_out' }, 'timed out'],
    [
      'timed_out',
      { lastFinal: null, cause: 'timed_out', seen: false },
      'timed out; no output was seen at all',
    ],
    [
      'ok_not_true',
      { lastFinal: event('limit reached', false), exit: exit3 },
      'the final event says ok false: limit reached',
    ],
    ['exit_nonzero', { lastFinal: null, exit: exit3 }, 'exit code 3; no final event was received'],
    ['no_final', { lastFinal: null, warnings: ['w'] }, 'no final event was received; w'],
    ['stream_broken', { lastFinal: null, broken: 'b', warnings: ['b'] }, 'no final event was received; b'],
  ] as const)('is %s for %o', (reason, more, message) => {
    expect(streamOutcome({ ...base, ...more })).toMatchObject({ ok: false, reason, message });
  });

  it('has the value of the recorded final event when the child sent none', () => {
    const value = { raw: '', note: 'streaming mode: no Final event received', exit_success: false };
    expect(noFinalEvent(exit3)).toEqual({ type: 'final', content: { kind: 'inline', value }, ok: false });
    expect(streamOutcome({ ...base, lastFinal: null, exit: exit3 }).value).toEqual(value);
  });

  it('describes a file', () => {
    const content = { kind: 'file_ref', path: '/tmp/x', mime: null, size_hint: 3 } as const;
    const { value } = streamOutcome({ ...base, lastFinal: { type: 'final', content, ok: true } });
    expect(value).toEqual({ file_ref: '/tmp/x', mime: null, size_hint: 3 });
  });
});
