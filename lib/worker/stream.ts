/** The events of a streaming child, read as its bytes arrive, and what they mean once it has ended. */
import type { Condition } from '../blueprint/output-schema.ts';
import type { StreamMode } from '../blueprint/schema.ts';
import { type JsonValue, resolvePointer } from '../json.ts';
import type { ExitStatus, Outcome, Reason } from '../task.ts';
import { asksForRetry } from './condition.ts';
import type { Part } from './document-view.ts';
import { deathOf, exitFailure, type Failure, verdict } from './failure.ts';
import { baseStats } from './stats.ts';
import { type Content, type FinalEvent, parseEvent, type StreamEvent } from './stream-event.ts';
import { createBytes, type Framing, lengthFraming, lineFraming, MAX_FRAME_BYTES } from './stream-framing.ts';
import { short, trim } from './text.ts';

export type { StreamMode };

export interface StreamReport {
  /** lines, payloads or frames that held text but no event */
  readonly skipped: number;
  /** what was skipped and why, for a person */
  readonly warnings: readonly string[];
  /** why reading stopped before the end; null when it did not */
  readonly broken: string | null;
  /** whether any byte arrived */
  readonly seen: boolean;
}

export interface StreamReader {
  /** Takes the next bytes, cut anywhere; the chunk is not kept. */
  push(chunk: Uint8Array): void;
  /** Takes the end of the stream as the end of what is still open. */
  end(): StreamReport;
}

/**
 * Calls `onEvent` for every event in order. What is not an event is skipped and counted; bad UTF-8 is read as
 * U+FFFD. A line or event over 16 MiB is skipped; a bad length-prefixed frame ends the reading.
 */
export function createStreamReader(mode: StreamMode, onEvent: (event: StreamEvent) => void): StreamReader {
  const unit = mode === 'length_prefixed' ? 'frame' : 'line';
  let skipped = 0;
  let firstSkip = '';
  let broken: string | null = null;
  let seen = false;

  const skip = (message: string, at: number) => {
    if (skipped++ === 0) firstSkip = `${unit} ${at}: ${message}`;
  };
  const framing = FRAMINGS[mode]({
    skip,
    read(bytes, at) {
      const text = trim(bytes.toString('utf8'));
      if (text === '') return;
      const parsed = parseEvent(text);
      if (parsed.ok) onEvent(parsed.event);
      else skip(parsed.message, at);
    },
    stop(message) {
      broken = message;
    },
  });

  return {
    push(chunk) {
      seen ||= chunk.length > 0;
      framing.push(chunk);
    },
    end() {
      framing.end();
      const warnings: string[] = [];
      if (skipped > 0)
        warnings.push(`output that is not an event was skipped ${times(skipped)}; ${firstSkip}`);
      if (broken !== null) warnings.push(broken);
      return { skipped, warnings, broken, seen };
    },
  };
}

function times(count: number): string {
  return count === 1 ? 'once' : `${count} times`;
}

/** Where a framing hands what it found; `at` counts lines or frames from 1. */
interface Sink {
  read(event: Buffer, at: number): void;
  skip(message: string, at: number): void;
  stop(message: string): void;
}

const FRAMINGS: Record<StreamMode, (sink: Sink) => Framing> = {
  ndjson_lines: ndjson,
  sse_events: serverSentEvents,
  length_prefixed: lengthPrefixed,
};
const TOO_LONG = `longer than ${MAX_FRAME_BYTES} bytes`;

function ndjson(sink: Sink): Framing {
  let at = 0;
  return lineFraming((line) => {
    at++;
    if (line === null) sink.skip(TOO_LONG, at);
    else if (line.length > 0) sink.read(line, at);
  });
}

const DATA = Buffer.from('data:');
const BYTE_ORDER_MARK = Buffer.from('\ufeff');
const SPACE = 0x20;

/** `data:` lines up to an empty line make one event; a line over the limit spoils the event it stands in. */
function serverSentEvents(sink: Sink): Framing {
  const data = createBytes();
  let at = 0;
  let lines = 0;
  let tooLong = false;

  const dispatch = () => {
    if (tooLong) sink.skip(TOO_LONG, at);
    else if (lines > 0) sink.read(data.view(), at);
    data.clear();
    lines = 0;
    tooLong = false;
  };
  const framing = lineFraming((raw) => {
    at++;
    const line = at === 1 && raw !== null ? withoutPrefix(raw, BYTE_ORDER_MARK) : raw;
    if (line !== null && line.length === 0) return dispatch();
    if (line !== null && !startsWith(line, DATA)) return;
    if (line === null || tooLong || data.size() + line.length > MAX_FRAME_BYTES) {
      tooLong = true;
      data.clear();
      return;
    }
    if (lines++ > 0) data.append(LINE_FEED);
    data.append(line.subarray(line[DATA.length] === SPACE ? DATA.length + 1 : DATA.length));
  });
  return {
    push: framing.push,
    end() {
      framing.end();
      dispatch();
    },
  };
}
const LINE_FEED = Buffer.from('\n');

function lengthPrefixed(sink: Sink): Framing {
  let at = 0;
  return lengthFraming((frame) => sink.read(frame, ++at), sink.stop);
}

function startsWith(line: Buffer, prefix: Buffer): boolean {
  return line.length >= prefix.length && line.compare(prefix, 0, prefix.length, 0, prefix.length) === 0;
}

function withoutPrefix(line: Buffer, prefix: Buffer): Buffer {
  return startsWith(line, prefix) ? line.subarray(prefix.length) : line;
}

export interface StreamEnding {
  /** the last final event, null when there was none */
  readonly lastFinal: FinalEvent | null;
  readonly exit: ExitStatus;
  /** why the supervisor ended the child; such a child never passes */
  readonly cause: Reason | null;
  /** more about `cause` for the message, such as `after 30 s` */
  readonly detail?: string;
  readonly model: string | null;
  /** when a result that is not ok asks for a new attempt; pointers apply to the value of the final event */
  readonly retry_when?: Condition | null;
  readonly stderr?: string;
  /** as the reader reported them */
  readonly warnings: readonly string[];
  readonly skipped?: number;
  readonly broken?: string | null;
  readonly seen?: boolean;
}

/** The final event that is recorded for a child that sent none. */
export function noFinalEvent(exit: ExitStatus): FinalEvent {
  const note = 'streaming mode: no Final event received';
  const value = { raw: '', note, exit_success: exit.code === 0 };
  return { type: 'final', content: { kind: 'inline', value }, ok: false };
}

/** A final with ok true passes only with exit code 0 and no cause; without a final the child is blocked. */
export function streamOutcome(stream: StreamEnding): Outcome {
  const { lastFinal, exit, model, warnings } = stream;
  const ending = { ...stream, stderr: stream.stderr ?? '', said: spoken(stream) };
  const failure =
    deathOf(ending) ??
    (lastFinal === null
      ? withoutFinal(stream, exitFailure(ending))
      : lastFinal.ok
        ? exitFailure(ending)
        : refused(lastFinal));
  const value = contentValue((lastFinal ?? noFinalEvent(exit)).content);
  const find = (pointer: string): Part | undefined => {
    const found = resolvePointer(value, pointer);
    return found === undefined ? undefined : { value: found };
  };
  const again =
    failure !== null && asksForRetry(stream.retry_when, failure.reason, { exit_code: exit.code, find });
  return {
    ...verdict(failure),
    value,
    stats: baseStats(exit, model),
    warnings,
    ...(again && { retry: true }),
  };
}

function contentValue(content: Content): JsonValue {
  if (content.kind === 'inline') return content.value;
  return { file_ref: content.path, mime: content.mime, size_hint: content.size_hint };
}

function spoken({ lastFinal, seen }: StreamEnding): string | null {
  const value = lastFinal && contentValue(lastFinal.content);
  if (typeof value === 'string' && value !== '') return value;
  return seen === false ? '' : null;
}

function refused(final: FinalEvent): Failure {
  const value = contentValue(final.content);
  const why = typeof value === 'string' ? `: ${short(value, 200)}` : '';
  return { reason: 'ok_not_true', message: `the final event says ok false${why}` };
}

function withoutFinal({ broken, warnings }: StreamEnding, exited: Failure | null): Failure {
  const missing = ['no final event was received', ...warnings].join('; ');
  if (exited !== null) return { reason: exited.reason, message: `${exited.message}; ${missing}` };
  return { reason: broken == null ? 'no_final' : 'stream_broken', message: missing };
}
