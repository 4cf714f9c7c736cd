/** Checks of a template's `output` and `retry`: pointers, selections, conditions. */
import { unescapeSegment } from '../json.ts';
import type { Finding, Template } from './finding.ts';
import { nearest, quote, shorten } from './nearest.ts';
import {
  Condition,
  OTHER_TESTS,
  POINTER_TESTS,
  partsOf,
  type Selection,
  SubprocessOutput,
  selectionsOf,
} from './output-schema.ts';
import type { Draft } from './read-blueprint.ts';
import type { Retry } from './schema.ts';

type Path = readonly PropertyKey[];

export function* checkOutput(output: Draft<SubprocessOutput>, { stream_mode }: Template): Generator<Finding> {
  if (stream_mode != null) {
    const message = `${quote(stream_mode)} excludes output; a stream mode takes its result from the final event`;
    yield [['stream_mode'], { code: 'output_with_stream_mode', message }];
  }
  const names = namesOf(output);
  const { result_ptr, ok_from, stats, error } = output;
  if (result_ptr != null) yield* checkPointer(['output', 'result_ptr'], result_ptr, names);
  if (ok_from != null && typeof ok_from !== 'string')
    yield* checkCondition(['output', 'ok_from'], ok_from, names);
  else if (ok_from?.startsWith('/')) yield* checkPointer(['output', 'ok_from'], ok_from, names);
  else if (ok_from != null && ok_from !== 'exit_code') {
    const message = `${quote(ok_from)} is neither "exit_code" nor a JSON Pointer, which begins with /`;
    yield [['output', 'ok_from'], { code: 'bad_ok_from', message }];
  }
  for (const [part, pointers] of Object.entries({ stats, error })) {
    for (const [field, pointer] of Object.entries(pointers ?? {}))
      if (pointer != null) yield* checkPointer(['output', part, field], pointer, names);
  }
  if (output.select != null) yield* checkSelections(output);
}

export function* checkRetry(retry: Draft<Retry>, output: Draft<SubprocessOutput>): Generator<Finding> {
  yield* checkCondition(['retry', 'when'], retry.when, namesOf(output));
}

/** The names that pointers begin with; null where they begin anywhere. */
function namesOf({ select }: Draft<SubprocessOutput>): readonly string[] | null {
  const sound = select == null ? undefined : SubprocessOutput.safeParse({ select }).data;
  if (!sound?.select) return null;
  const names = [...selectionsOf(sound).keys()];
  return names.includes('') ? null : names;
}

function* checkSelections({ select }: Draft<SubprocessOutput>): Generator<Finding> {
  const sound = SubprocessOutput.safeParse({ select }).data;
  if (!sound?.select) return;
  const path = ['output', 'select'];
  const selections = selectionsOf(sound);
  if (Object.hasOwn(select ?? {}, '__proto__'))
    yield [
      [...path, '__proto__'],
      { code: 'invalid_value', message: 'this name cannot be used; choose another' },
    ];
  for (const [name, selection] of selections) {
    const isNamed = selection !== (sound.select as Selection);
    yield* checkSelection(isNamed ? [...path, name] : path, selection);
  }
}

function* checkSelection(path: Path, { where, after_last, ptr, take, join }: Selection): Generator<Finding> {
  for (const [field, pairs] of Object.entries({ where, after_last })) {
    for (const pointer of Object.keys(pairs ?? {}))
      yield* checkPointer([...path, field, pointer], pointer, null);
  }
  if (ptr != null) yield* checkPointer([...path, 'ptr'], ptr, null);
  if (join != null && take !== 'all') {
    const message = 'join makes one text of many; it needs "take": "all"';
    yield [[...path, 'join'], { code: 'invalid_value', message }];
  }
}

const MAX_PARTS = 100;

function* checkCondition(
  path: Path,
  draft: Draft<Condition> | null | undefined,
  names: readonly string[] | null,
): Generator<Finding> {
  const whole = Condition.safeParse(draft).data;
  if (!whole) return;
  const parts = [...partsOf(whole)].length;
  if (parts <= MAX_PARTS) yield* checkParts(path, whole, names);
  else
    yield [
      path,
      { code: 'bad_condition', message: `${parts} conditions in one; at most ${MAX_PARTS} are allowed` },
    ];
}

function* checkParts(path: Path, condition: Condition, names: readonly string[] | null): Generator<Finding> {
  const { ptr, matches, all, any, not } = condition;
  const has = (field: string): boolean => Object.hasOwn(condition, field);
  const tests = [...POINTER_TESTS, ...OTHER_TESTS].filter(has);
  if (tests.length !== 1) {
    const given = tests.length === 0 ? 'none is given' : `${tests.map(quote).join(' and ')} are given`;
    const message = `a condition is exactly one of ${[...POINTER_TESTS, ...OTHER_TESTS].join(', ')}; ${given}${tests.length > 1 ? '; join them with "all" or "any"' : ''}`;
    yield [path, { code: 'bad_condition', message }];
  }
  const needsPointer = POINTER_TESTS.some(has);
  if (needsPointer !== (ptr !== undefined) && tests.length > 0) {
    const message = needsPointer
      ? `${quote(tests[0]!)} tests a value; say which one with "ptr"`
      : `${quote(tests[0]!)} takes no "ptr"`;
    yield [path, { code: 'bad_condition', message }];
  }
  for (const field of ['in', 'exit_codes', 'all', 'any'] as const) {
    if (condition[field]?.length === 0)
      yield [[...path, field], { code: 'bad_condition', message: 'an empty list; name at least one' }];
  }
  if (ptr !== undefined) yield* checkPointer([...path, 'ptr'], ptr, names);
  if (matches !== undefined) yield* checkPattern([...path, 'matches'], matches);
  for (const [field, parts] of Object.entries({ all, any })) {
    for (const [i, part] of (parts ?? []).entries()) yield* checkParts([...path, field, i], part, names);
  }
  if (not) yield* checkParts([...path, 'not'], not, names);
}

function* checkPattern(path: Path, pattern: string): Generator<Finding> {
  try {
    new RegExp(pattern, 'u');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    yield [path, { code: 'bad_pattern', message: `not a regular expression of JavaScript: ${why}` }];
  }
}

function* checkPointer(path: Path, pointer: string, names: readonly string[] | null): Generator<Finding> {
  const rooted = pointer.startsWith('/');
  if (rooted && !/~(?![01])/.test(pointer)) {
    if (names) yield* checkName(path, pointer, names);
    return;
  }
  const example =
    pointer === '' ? 'leave the field out for the whole document' : `write /${shorten(pointer)}`;
  const why = rooted
    ? 'a ~ must be followed by 0 (~0 is ~) or 1 (~1 is /)'
    : `it must begin with /; ${example}`;
  yield [path, { code: 'bad_pointer', message: `${quote(pointer)} is not a JSON Pointer: ${why}` }];
}

/** Where selections have names, a pointer begins with one of them. */
function* checkName(path: Path, pointer: string, names: readonly string[]): Generator<Finding> {
  const [, first = ''] = pointer.split('/');
  const name = unescapeSegment(first);
  if (names.includes(name)) return;
  const near = nearest(name, names);
  const meant = near === undefined ? '' : `; did you mean ${quote(near)}?`;
  const message = `${quote(pointer)} begins with no selection of output.select, which names ${names.map(quote).join(', ')}${meant}`;
  yield [path, { code: 'dangling_reference', message }];
}
