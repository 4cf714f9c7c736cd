/** One event of a streaming child: the four types, and reading one from text. */
import type { JsonObject, JsonValue } from '../json.ts';
import { isObject, isRaw, member, parseJson } from '../json.ts';
import { describe } from './failure.ts';
import { short } from './text.ts';

export type Content =
  | { readonly kind: 'inline'; readonly value: JsonValue }
  | {
      readonly kind: 'file_ref';
      readonly path: string;
      readonly mime: string | null;
      /** whole, at least 0, as written */
      readonly size_hint: JsonValue;
    };
export type StreamEvent =
  | { readonly type: 'progress'; readonly stage: string; readonly note: string | null }
  | { readonly type: 'partial'; readonly chunk: Content }
  | { readonly type: 'artifact'; readonly name: string; readonly content: Content }
  | FinalEvent;
export interface FinalEvent {
  readonly type: 'final';
  readonly content: Content;
  readonly ok: boolean;
}

export type ParsedEvent =
  | { readonly ok: true; readonly event: StreamEvent }
  | { readonly ok: false; readonly message: string };

/** Reads one event; keys beyond those of its type are ignored, absent optional ones become null. */
export function parseEvent(text: string): ParsedEvent {
  if (!OPENS_OBJECT.test(text)) return { ok: false, message: `"${short(text, 60)}" is not a JSON object` };
  let document: JsonValue;
  try {
    document = parseJson(text);
  } catch (error) {
    return { ok: false, message: error instanceof Error ? error.message : String(error) };
  }
  const found: string[] = [];
  const event = isObject(document) ? readEvent(document, found) : undefined;
  return event === undefined || found.length > 0
    ? { ok: false, message: found.join('; ') }
    : { ok: true, event };
}

/** Looked at first, because refusing a log line this way is far cheaper than by the parser. */
const OPENS_OBJECT = /^\ufeff?[ \t\r\n]*\{/;

function readEvent(source: JsonObject, found: string[]): StreamEvent | undefined {
  const type = member(source, 'type');
  switch (type) {
    case 'progress':
      return { type, stage: readText(source, 'stage', found), note: readOptional(source, 'note', found) };
    case 'partial':
      return withContent(source, 'chunk', found, (chunk) => ({ type, chunk }));
    case 'artifact': {
      const name = readText(source, 'name', found);
      return withContent(source, 'content', found, (content) => ({ type, name, content }));
    }
    case 'final': {
      const ok = member(source, 'ok');
      if (typeof ok !== 'boolean') wrong(found, 'ok', ok, 'a boolean');
      return withContent(source, 'content', found, (content) => ({ type, content, ok: ok === true }));
    }
    default:
      return wrong(found, 'type', type, 'one of progress, partial, artifact, final');
  }
}

function withContent(
  source: JsonObject,
  key: string,
  found: string[],
  build: (content: Content) => StreamEvent,
): StreamEvent | undefined {
  const content = readContent(member(source, key), key, found);
  return content && build(content);
}

function readContent(source: JsonValue | undefined, at: string, found: string[]): Content | undefined {
  if (!isObject(source)) return wrong(found, at, source, 'an object');
  const kind = member(source, 'kind');
  if (kind === 'inline') {
    const value = member(source, 'value');
    return value === undefined ? wrong(found, `${at}.value`, value, 'any JSON value') : { kind, value };
  }
  if (kind !== 'file_ref') return wrong(found, `${at}.kind`, kind, 'inline or file_ref');
  const size = member(source, 'size_hint') ?? null;
  if (size !== null && !isUnsigned(size)) wrong(found, `${at}.size_hint`, size, 'an unsigned integer');
  const path = readText(source, 'path', found, `${at}.path`);
  return { kind, path, mime: readOptional(source, 'mime', found, `${at}.mime`), size_hint: size };
}

function readText(source: JsonObject, key: string, found: string[], at: string = key): string {
  const value = member(source, key);
  if (typeof value === 'string') return value;
  wrong(found, at, value, 'a string');
  return '';
}

function readOptional(source: JsonObject, key: string, found: string[], at: string = key): string | null {
  const value = member(source, key) ?? null;
  return value === null ? null : readText(source, key, found, at);
}

const U64_MAX = 2n ** 64n - 1n;

function isUnsigned(value: JsonValue): boolean {
  if (typeof value !== 'number' && !isRaw(value)) return false;
  const text = JSON.stringify(value);
  return /^\d{1,20}$/.test(text) && BigInt(text) <= U64_MAX;
}

function wrong(found: string[], at: string, value: JsonValue | undefined, expected: string): undefined {
  const what = value === undefined ? 'is missing' : `is ${describe(value)}`;
  found.push(`${at} ${what}, expected ${expected}`);
}
