/** From the bytes of a document to its value, and from a pointer back to line and column. */
import { type Issue, type SourcePosition, StepspawnError } from '../errors.ts';
import type { JsonValue } from '../json.ts';
import { error } from './issues.ts';
import { beginsLikeJson, readJsonText } from './json-source.ts';
import { readYamlText } from './yaml-source.ts';

export interface Source {
  readonly value: JsonValue;
  /** the position of the value at a JSON Pointer, or of the nearest value around it that exists */
  readonly locate: (pointer: string) => SourcePosition | undefined;
  /** the same for many pointers in one pass */
  readonly locateAll: (pointers: readonly string[]) => (SourcePosition | undefined)[];
}

const MIB = 1024 * 1024;
export const MAX_JSON_BYTES = 16 * MIB;
export const MAX_YAML_BYTES = 4 * MIB;

/**
 * Reads a document: JSON, with comments and trailing commas allowed, or YAML 1.2 where the name or the text says so.
 * Throws InvalidBlueprint with one issue: `too_large`, `not_utf8`, `not_json`, `not_yaml` or `too_deep`.
 */
export function readSource(bytes: Uint8Array, name: string): Source {
  if (bytes.length > MAX_JSON_BYTES) refuse(name, tooLarge('a document', bytes.length, MAX_JSON_BYTES));
  const text = decode(bytes, name);
  const isYaml = speaksYaml(text, name);
  if (isYaml && bytes.length > MAX_YAML_BYTES) {
    refuse(
      name,
      `${tooLarge('a YAML document', bytes.length, MAX_YAML_BYTES)}; as JSON it may have ${MAX_JSON_BYTES}`,
    );
  }
  const read = isYaml ? readYamlText(text) : readJsonText(text);
  if (!read.ok)
    fail(
      name,
      read.code,
      read.message,
      read.offset === undefined ? undefined : { text, offset: read.offset },
    );
  const locateAll = (pointers: readonly string[]) => positionsOf(text, read.offsets(pointers));
  return { value: read.value, locateAll, locate: (pointer) => locateAll([pointer])[0] };
}

/** The issues with line and column, where the source holds what they point at. */
export function withPositions(issues: readonly Issue[], source: Source): Issue[] {
  if (issues.length === 0) return [];
  const positions = source.locateAll(issues.map(({ path }) => path));
  return issues.map((issue, i) => ({ ...issue, ...positions[i] }));
}

function speaksYaml(text: string, name: string): boolean {
  if (/\.ya?ml$/i.test(name)) return true;
  return !/\.json$/i.test(name) && !beginsLikeJson(text);
}

function decode(bytes: Uint8Array, name: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    const offset = firstBadByte(bytes);
    const text = new TextDecoder().decode(bytes.subarray(0, offset));
    const byte = bytes[offset]?.toString(16).padStart(2, '0');
    return fail(name, 'not_utf8', `byte 0x${byte} at offset ${offset} is not UTF-8; save the file as UTF-8`, {
      text,
      offset: text.length,
    });
  }
}

/** By halving: a prefix decodes as long as it holds no bad byte. */
function firstBadByte(bytes: Uint8Array): number {
  let good = 0;
  let bad = bytes.length;
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (decodes(bytes.subarray(0, middle))) good = middle;
    else bad = middle;
  }
  return good;
}

function decodes(bytes: Uint8Array): boolean {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: true });
    return true;
  } catch {
    return false;
  }
}

function tooLarge(what: string, size: number, limit: number): string {
  return `${what} of ${size} bytes is over the limit of ${limit} bytes`;
}

function refuse(name: string, message: string): never {
  fail(name, 'too_large', message);
}

function fail(name: string, code: string, message: string, at?: { text: string; offset: number }): never {
  const position = at && positionsOf(at.text, [at.offset])[0];
  const where = position ? `:${position.line}:${position.column}` : '';
  throw new StepspawnError('InvalidBlueprint', `${name}${where}: ${message}`, {
    issues: [{ ...error(code, '', message), ...position }],
  });
}

/** Lines and columns (in UTF-16 units, from 1) of offsets, in one pass over the text. */
function positionsOf(text: string, offsets: readonly (number | undefined)[]): (SourcePosition | undefined)[] {
  const ascending = [...new Set(offsets)].filter((offset) => offset !== undefined).sort((a, b) => a - b);
  const found = new Map<number | undefined, SourcePosition>();
  let line = 1;
  let start = 0;
  for (const offset of ascending) {
    for (let end = text.indexOf('\n', start); end !== -1 && end < offset; end = text.indexOf('\n', start)) {
      line++;
      start = end + 1;
    }
    found.set(offset, { line, column: offset - start + 1 });
  }
  return offsets.map((offset) => found.get(offset));
}
