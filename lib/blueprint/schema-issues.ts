/** From what zod reports to issues: code, pointer, what was expected and what came. */
import type * as z from 'zod/mini';
import * as core from 'zod/v4/core';
import type { Issue } from '../errors.ts';
import { isObject, isRaw, type JsonValue, toPointer } from '../json.ts';
import { error } from './issues.ts';
import { nearest, quote, shorten } from './nearest.ts';
import { fieldsAt, optionAt, type Schema, tagsAt, valueAt } from './schema-walk.ts';
import { AUTHORING_REFS } from './walk.ts';

/** An issue, and the path of the value that does not fit; without an issue where `walkDocument` reports it. */
export interface SchemaIssue {
  readonly issue?: Issue;
  readonly path: readonly PropertyKey[];
}

type ZodIssue = z.core.$ZodIssue;

/** Zod's own switch of `z.validate`, as parse context: what follows the first issue is not looked at. */
export const STOP_AT_FIRST = { reportInput: false, abortEarly: true };

/** All issues of a value against a schema; none = it fits. */
export function checkSchema(schema: Schema, value: JsonValue): Issue[] {
  const result = core.safeParse(schema, value);
  return result.success
    ? []
    : [...translateIssues(schema, result.error.issues, value)].flatMap(({ issue }) => issue ?? []);
}

/** Zod's issues about a document in our words. */
export function* translateIssues(
  schema: Schema,
  found: Iterable<ZodIssue>,
  document: JsonValue,
): Generator<SchemaIssue> {
  const refused = new Set<string>();
  for (const issue of found) {
    const path = opaqueAncestor(document, issue);
    if (path === undefined) yield* translate(schema, issue, document);
    else if (!refused.has(toPointer(path))) {
      refused.add(toPointer(path));
      const value = valueAt(document, path);
      yield isRaw(value) ? { path, issue: wrongType(path, 'an object', value) } : { path };
    }
  }
}

/** The part of an issue's path that ends at a value zod must not look into: a raw number, a reference. */
function opaqueAncestor(document: JsonValue, { code, path }: ZodIssue): PropertyKey[] | undefined {
  for (let length = 0; length <= path.length; length++) {
    const value = valueAt(document, path.slice(0, length));
    const inside = length < path.length || code === 'unrecognized_keys';
    if ((isRaw(value) && inside) || isReference(value)) return path.slice(0, length);
  }
  return undefined;
}

function isReference(value: JsonValue | undefined): boolean {
  return isObject(value) && AUTHORING_REFS.some((name) => Object.hasOwn(value, name));
}

function* translate(schema: Schema, issue: ZodIssue, document: JsonValue): Generator<SchemaIssue> {
  const { path } = issue;
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const found = issue.errors[optionAt(schema, path, document)] ?? [];
    const types = issue.errors.flatMap(([first]) =>
      first?.code === 'invalid_type' && first.path.length === 0 ? (TYPES[first.expected] ?? []) : [],
    );
    // of none of the types
    if (types.length === issue.errors.length) {
      const expected = [...new Set(types)].join(' or ');
      yield { path, issue: wrongType(path, expected, valueAt(document, path)) };
      return;
    }
    for (const inner of found)
      yield* translate(schema, { ...inner, path: [...path, ...inner.path] }, document);
    return;
  }
  if (issue.code === 'unrecognized_keys') {
    const known = fieldsAt(schema, path, document);
    for (const key of issue.keys) {
      yield { path: [...path, key], issue: unknownField([...path, key], key, known) };
    }
    return;
  }
  const value = valueAt(document, path);
  const expected = expectation(schema, issue, document);
  const last = path.at(-1);
  if (value === undefined && last !== undefined) {
    const message = `missing field ${quote(String(last))}: ${expected}`;
    yield { path, issue: error('missing_field', toPointer(path), message) };
  } else if (issue.code === 'invalid_type') {
    yield { path, issue: wrongType(path, expected, value) };
  } else {
    const code = (typeof value === 'string' && CODES.get(last)) || 'invalid_value';
    const got = expected.startsWith('expected') ? `, got ${describe(value)}` : '';
    yield { path, issue: error(code, toPointer(path), expected + got) };
  }
}

/** Fields whose closed set of strings has a code of its own. */
const CODES: ReadonlyMap<unknown, string> = new Map([
  ['stream_mode', 'unknown_stream_mode'],
  ['format', 'bad_format'],
]);

function wrongType(path: readonly PropertyKey[], expected: string, value: JsonValue | undefined): Issue {
  const wanted = expected.startsWith('expected') ? expected : `expected ${expected}`;
  return error('wrong_type', toPointer(path), `${wanted}, got ${describe(value)}`);
}

function unknownField(path: readonly PropertyKey[], key: string, known: readonly string[]): Issue {
  const hint = nearest(key, known);
  const meant = hint === undefined ? '' : `; did you mean ${quote(hint)}?`;
  const allowed = known.length > 0 ? `; known: ${known.join(', ')}` : '';
  return error('unknown_field', toPointer(path), `unknown field ${quote(key)}${meant}${allowed}`);
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a string',
  array: 'a list',
  object: 'an object',
  record: 'an object',
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
};

function expectation(schema: Schema, issue: ZodIssue, document: JsonValue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `expected ${TYPES[issue.expected] ?? issue.expected}`;
    case 'invalid_value':
      return `expected ${oneOf(issue.values)}`;
    case 'invalid_union':
      return `expected ${oneOf(tagsAt(schema, issue.path, document))}`;
    case 'too_small':
      return `expected a number ${issue.inclusive ? 'of at least' : 'above'} ${issue.minimum}`;
    case 'too_big':
      return `expected a number of at most ${issue.maximum}`;
    default:
      return issue.message;
  }
}

function oneOf(values: readonly unknown[]): string {
  const shown = values.map((value) => JSON.stringify(value)).join(', ');
  return values.length === 1 ? shown : `one of ${shown}`;
}

/** A value as a message shows it: its type, and a scalar's text cut to a readable length. */
export function describe(value: JsonValue | undefined): string {
  if (value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (isObject(value)) return 'an object';
  if (typeof value === 'string') return `string ${JSON.stringify(shorten(value))}`;
  return value === null || typeof value === 'boolean'
    ? String(value)
    : `number ${shorten(JSON.stringify(value))}`;
}
