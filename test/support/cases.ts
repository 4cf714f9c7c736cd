/** Reads case files: lossless JSON lines with the notation of test/cases/README.md. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { isObject, isRaw, type JsonObject, type JsonValue, jsonEquals, parseJson } from '../../lib/json.ts';

/** The cases of a file in test/cases, or in the folder that CASES_DIR names. */
export function readCases(name: string): JsonObject[] {
  const folder = process.env.CASES_DIR || join(import.meta.dirname, '..', 'cases');
  const lines = readFileSync(join(folder, name), 'utf8').split('\n');
  return lines.filter((line) => line.trim() !== '').map((line) => expand(parseJson(line)) as JsonObject);
}

/** `{"$repeat": [s, n]}` stands for s repeated n times. */
function expand(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(expand);
  if (!isObject(value)) return value;
  const repeat = value.$repeat;
  if (Array.isArray(repeat) && Object.keys(value).length === 1)
    return String(repeat[0]).repeat(Number(repeat[1]));
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expand(item)]));
}

/** Bytes given as `<key>`, `<key>_b64` or `<key>_repeat`. */
export function bytesOf(input: JsonObject, key: string): Buffer {
  const base64 = input[`${key}_b64`];
  if (typeof base64 === 'string') return Buffer.from(base64, 'base64');
  const repeat = input[`${key}_repeat`];
  if (isObject(repeat)) {
    const { prefix = '', text, times, suffix = '' } = repeat;
    return Buffer.from(`${prefix}${String(text).repeat(Number(times))}${suffix}`);
  }
  return Buffer.from(String(input[key] ?? ''));
}

/** Whole-value comparison: objects by key, numbers by value, lists in order, `{"$match"}` as a matcher. */
export function matches(actual: JsonValue | undefined, expected: JsonValue): boolean {
  if (isObject(expected) && '$match' in expected) {
    if (expected.$match === 'any') return actual !== undefined;
    return typeof actual === 'string' && actual.includes(String(expected.contains ?? ''));
  }
  if (Array.isArray(expected)) {
    return (
      Array.isArray(actual) &&
      actual.length === expected.length &&
      expected.every((item, i) => matches(actual[i], item))
    );
  }
  if (isObject(expected)) {
    const keys = Object.keys(expected);
    return (
      isObject(actual) &&
      Object.keys(actual).length === keys.length &&
      keys.every((key) => matches(actual[key], expected[key]!))
    );
  }
  return actual !== undefined && sameScalar(actual, expected);
}

/** Integers beyond a double's reach are compared by their digits. */
function sameScalar(actual: JsonValue, expected: JsonValue): boolean {
  if (isRaw(actual) && isRaw(expected) && /^-?\d+$/.test(actual.rawJSON) && /^-?\d+$/.test(expected.rawJSON))
    return BigInt(actual.rawJSON) === BigInt(expected.rawJSON);
  return jsonEquals(actual, expected);
}

export function expectMatch(actual: JsonValue | undefined, expected: JsonValue): void {
  expect(matches(actual, expected), `expected ${show(expected)}, got ${show(actual)}`).toBe(true);
}

/** Every piece of `error_contains` is in the text, without regard to case. */
export function expectContains(text: string, pieces: JsonValue | undefined): void {
  for (const piece of Array.isArray(pieces) ? pieces : [])
    expect(text.toLowerCase()).toContain(String(piece).toLowerCase());
}

function show(value: JsonValue | undefined): string {
  return value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 2000);
}
