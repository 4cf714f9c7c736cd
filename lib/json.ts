/**
 * Lossless JSON: numbers that a double would change (`1.0`, `9007199254740993`, `-0`) stay as their source
 * text in a `RawNumber`, which the platform's own `JSON.stringify` prints as written.
 */
import { createHash } from 'node:crypto';
import jsonpointer from 'jsonpointer';

declare global {
  interface JSON {
    rawJSON(text: string): RawNumber;
    isRawJSON(value: unknown): value is RawNumber;
  }
}

/** A number kept as its source text; made by `JSON.rawJSON`. */
export interface RawNumber {
  readonly rawJSON: string;
}
export type JsonObject = { [key: string]: JsonValue };
export type JsonValue = null | boolean | number | string | RawNumber | JsonValue[] | JsonObject;

/** Nested containers that foreign JSON (a document, a request, a child's output) may have. */
export const MAX_DEPTH = 127;
/** Nested containers that our own stored values may have; flows can nest deeper than what they read. */
export const MAX_STORED_DEPTH = 1000;

export class JsonError extends Error {
  readonly code: 'not_json' | 'too_deep' | 'too_large';
  constructor(code: JsonError['code'], message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'JsonError';
    this.code = code;
  }
}

/**
 * Reads one JSON document without losing digits. One leading byte-order mark is ignored; duplicate keys: the
 * last wins. Throws `JsonError` for a syntax error, over `maxDepth` nested containers, a number outside the
 * range of a double, or a lone surrogate escape.
 */
export function parseJson(text: string, maxDepth: number = MAX_DEPTH): JsonValue {
  const body = text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
  checkDepth(body, maxDepth);
  try {
    return NEEDS_CARE.test(body) ? JSON.parse(body, keepSource) : JSON.parse(body);
  } catch (error) {
    if (error instanceof JsonError) throw error;
    throw new JsonError('not_json', error instanceof Error ? error.message : String(error), error);
  }
}

/** Text that may hold a number whose digits a double loses, or an escaped surrogate. */
const NEEDS_CARE = /\d\.\d|\d[eE]|-0|\d{16}|\\u[dD][89a-fA-F]/;

function keepSource(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new JsonError('not_json', `number out of range: ${context?.source}`);
    const source = context?.source ?? String(value);
    return String(value) === source ? value : JSON.rawJSON(source);
  }
  if (typeof value === 'string') rejectLoneSurrogate(value);
  else if (typeof value === 'object' && value !== null) {
    for (const name in value) rejectLoneSurrogate(name);
  }
  return value;
}

function rejectLoneSurrogate(text: string): void {
  if (!text.isWellFormed()) throw new JsonError('not_json', 'lone surrogate in a string escape');
}

function checkDepth(text: string, maxDepth: number): void {
  let depth = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c === 0x22) {
      i = endOfString(text, i);
    } else if (c === 0x5b || c === 0x7b) {
      if (++depth > maxDepth)
        throw new JsonError('too_deep', `nested deeper than ${maxDepth} levels at position ${i}`);
    } else if (c === 0x5d || c === 0x7d) depth--;
  }
}

/** Index of the quote that closes the string opened at `start`, or the end of the text. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === 0x5c) slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

export function isRaw(value: unknown): value is RawNumber {
  return JSON.isRawJSON(value);
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !isRaw(value);
}

/** The double that a JSON number stands for, or undefined for any other value. */
export function toDouble(value: unknown): number | undefined {
  if (typeof value === 'number') return value;
  return isRaw(value) ? Number(value.rawJSON) : undefined;
}

/** Own member of an object; inherited members are never seen. */
export function member(object: JsonObject, key: string): JsonValue | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Sets an own member, also for `__proto__`, which plain assignment would treat as the prototype. */
export function setMember(object: JsonObject, key: string, value: JsonValue): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else object[key] = value;
}

/** Compares by UTF-8 bytes, which is the order of code points. */
export function compareUtf8(a: string, b: string): number {
  if (SURROGATE.test(a) || SURROGATE.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : a > b ? 1 : 0;
}
const SURROGATE = /[\ud800-\udfff]/;

/**
 * Compact JSON with object keys sorted by UTF-8 bytes at every level and numbers as written. Throws `JsonError`
 * over `MAX_STORED_DEPTH` nested containers, and when the text would be longer than a string can be.
 */
export function canonicalJson(value: JsonValue): string {
  return bounded(() => write(value, 0));
}

/** Compact JSON with keys in the order of the value. Throws `JsonError` when it would be longer than a string can be. */
export function compactJson(value: unknown): string {
  return bounded(() => JSON.stringify(value));
}

function bounded(print: () => string): string {
  try {
    return print();
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new JsonError(
      'too_large',
      'the value is too large or too deep to be written as one JSON text',
      error,
    );
  }
}

function write(value: JsonValue, depth: number): string {
  if (typeof value !== 'object' || value === null || isRaw(value)) return JSON.stringify(value);
  if (depth >= MAX_STORED_DEPTH)
    throw new JsonError('too_deep', `value nested deeper than ${MAX_STORED_DEPTH} levels`);
  if (Array.isArray(value)) {
    let text = '[';
    for (let i = 0; i < value.length; i++) text += (i === 0 ? '' : ',') + write(value[i]!, depth + 1);
    return `${text}]`;
  }
  let text = '{';
  for (const key of Object.keys(value).sort(compareUtf8)) {
    const item = value[key];
    if (item === undefined) continue;
    text += `${text.length === 1 ? '' : ','}${JSON.stringify(key)}:${write(item, depth + 1)}`;
  }
  return `${text}}`;
}

/** `sha256:<64 hex>` of the value's canonical JSON: equal for equal values, however they were written. */
export function digest(value: JsonValue): string {
  return `sha256:${sha256(canonicalJson(value))}`;
}

/** SHA-256 of text (as UTF-8) or bytes, as 64 hex digits. */
export function sha256(text: string | Uint8Array): string {
  return createHash('sha256').update(text).digest('hex');
}

/** Equality of JSON values: objects by key, lists in order, numbers by value as doubles. */
export function jsonEquals(a: JsonValue, b: JsonValue): boolean {
  const left = toDouble(a);
  if (left !== undefined) return left === toDouble(b);
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return a === b;
  if (Array.isArray(a)) {
    return Array.isArray(b) && a.length === b.length && a.every((item, i) => jsonEquals(item, b[i]!));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const keys = Object.keys(a);
  return (
    keys.length === Object.keys(b).length &&
    keys.every((key) => Object.hasOwn(b, key) && jsonEquals(a[key]!, b[key]!))
  );
}

/** A pointer segment as the name or index that it stands for. */
export function unescapeSegment(segment: string): string {
  return segment.replaceAll('~1', '/').replaceAll('~0', '~');
}

/** A pointer segment in its escaped spelling. */
export function escapeSegment(segment: string): string {
  return segment.replaceAll('~', '~0').replaceAll('/', '~1');
}

/** JSON Pointer of a path of keys and indices; `''` for the empty path. */
export function toPointer(path: readonly PropertyKey[]): string {
  return path.map((segment) => `/${escapeSegment(String(segment))}`).join('');
}

/**
 * The value at an RFC 6901 pointer, or undefined for a miss. Only own members and existing indices are reached:
 * `/constructor`, `/__proto__`, `/length` of a list and `/-` are misses unless they are data.
 */
export function resolvePointer(document: JsonValue, pointer: string): JsonValue | undefined {
  if (pointer === '') return document;
  const owner = jsonpointer.compile(pointer);
  return reachesOwnMembers(document, pointer) ? (owner.get(document as object) as JsonValue) : undefined;
}

function reachesOwnMembers(document: JsonValue, pointer: string): boolean {
  let at: JsonValue | undefined = document;
  for (const segment of pointer.split('/').slice(1)) {
    const key = segment.replaceAll('~1', '/').replaceAll('~0', '~');
    if (Array.isArray(at)) {
      if (!ARRAY_INDEX.test(key) || Number(key) >= at.length) return false;
      at = at[Number(key)];
    } else if (isObject(at)) {
      if (!Object.hasOwn(at, key)) return false;
      at = at[key];
    } else return false;
  }
  return true;
}
const ARRAY_INDEX = /^(0|[1-9]\d*)$/;
