/** Whether a condition of a template holds for what a program came to, and in words why not. */
import { runInNewContext } from 'node:vm';
import { type Condition, partsOf } from '../blueprint/output-schema.ts';
import { isObject, type JsonValue, jsonEquals } from '../json.ts';
import type { Reason } from '../task.ts';
import { inWords, type Part } from './document-view.ts';
import { short } from './text.ts';

/** What a condition looks at. */
export interface Facts {
  /** null after a signal */
  readonly exit_code: number | null;
  /** undefined for a miss */
  readonly find: (pointer: string) => Part | undefined;
}

/** Why a condition does not hold. */
export interface Unmet {
  /** exit: only the exit code is not as wanted · missing: a value is not there · value: all else */
  readonly about: 'exit' | 'missing' | 'value';
  /** nobody can tell whether it holds: what it looks at is missing, too large, or took too long */
  readonly undecided: boolean;
  /** the condition and what was found */
  readonly message: string;
}

/** Milliseconds that all patterns of one decision may take. */
const PATTERNS_MS = 250;

/** Whether the condition needs the JSON of the program. */
export function needsDocument(condition: Condition): boolean {
  return pointersOf(condition).length > 0;
}

/** The pointers that a condition names. */
export function pointersOf(condition: Condition): string[] {
  return [...partsOf(condition)].flatMap(({ ptr }) => ptr ?? []);
}

/** Why the condition does not hold, or null where it does. What cannot be decided does not hold, under `not` neither. */
export function unmet(condition: Condition, facts: Facts): Unmet | null {
  return test(condition, { ...facts, left_ms: PATTERNS_MS });
}

/** Whether a result that is not ok asks for a new attempt; one that was cancelled never does. */
export function asksForRetry(when: Condition | null | undefined, reason: Reason, facts: Facts): boolean {
  return when != null && reason !== 'cancelled' && unmet(when, facts) === null;
}

interface Looking extends Facts {
  left_ms: number;
}

function test(condition: Condition, looking: Looking): Unmet | null {
  const { ptr, exit_codes, all, any, not } = condition;
  if (ptr !== undefined) return testValue(condition, ptr, looking);
  if (exit_codes) return testExit(exit_codes, looking.exit_code);
  if (all) return testAll(all, looking);
  if (any) return testAny(any, looking);
  return not ? testNot(not, looking) : null;
}

function testExit(wanted: readonly number[], code: number | null): Unmet | null {
  if (code !== null && wanted.includes(code)) return null;
  return value('exit', `exit code ${code} is not ${orList(wanted.map(String))}`);
}

/** One part that surely does not hold decides; the exit code is told first, as the earlier cause of all else. */
function testAll(parts: readonly Condition[], looking: Looking): Unmet | null {
  const found = parts.map((part) => test(part, looking)).filter((each) => each !== null);
  const sure = found.filter(({ undecided }) => !undecided);
  return sure.find(({ about }) => about === 'exit') ?? sure[0] ?? found[0] ?? null;
}

function testAny(parts: readonly Condition[], looking: Looking): Unmet | null {
  const found: Unmet[] = [];
  for (const part of parts) {
    const each = test(part, looking);
    if (each === null) return null;
    found.push(each);
  }
  const [first] = found;
  if (!first || found.length === 1) return first ?? null;
  const told = found.slice(0, TOLD).map(({ message }) => message);
  const more = found.length > TOLD ? [`and ${found.length - TOLD} more`] : [];
  return {
    about: found.every(({ about }) => about === first.about) ? first.about : 'value',
    undecided: found.some(({ undecided }) => undecided),
    message: `none of ${found.length} holds: ${[...told, ...more].join('; ')}`,
  };
}
const TOLD = 5;

function testNot(inner: Condition, looking: Looking): Unmet | null {
  const found = test(inner, looking);
  if (found) return found.undecided ? found : null;
  return value('value', `${words(inner)}, which must not be`);
}

function testValue(condition: Condition, ptr: string, looking: Looking): Unmet | null {
  const part = looking.find(ptr);
  const { empty } = condition;
  if (empty !== undefined) {
    if (isEmpty(part) === empty) return null;
    const found = part === undefined ? 'not there' : inWords(part);
    return value('value', `'${ptr}' is ${found}, expected ${empty ? 'nothing' : 'something'}`);
  }
  if (part === undefined) return { about: 'missing', undecided: true, message: `'${ptr}' not found` };
  if (!('value' in part)) {
    const message = `'${ptr}' is ${part.large}, which is too large to be looked at`;
    return { about: 'value', undecided: true, message };
  }
  const wrong = (expected: string): Unmet =>
    value('value', `'${ptr}' is ${inWords(part)}, expected ${expected}`);
  const equals = (wanted: JsonValue): boolean => jsonEquals(part.value, wanted);
  if (Object.hasOwn(condition, 'equals')) {
    const wanted = condition.equals ?? null;
    return equals(wanted) ? null : wrong(shown(wanted));
  }
  if (Object.hasOwn(condition, 'not_equals')) {
    const unwanted = condition.not_equals ?? null;
    return equals(unwanted) ? wrong(`anything but ${shown(unwanted)}`) : null;
  }
  if (condition.in) return condition.in.some(equals) ? null : wrong(orList(condition.in.map(shown)));
  const pattern = condition.matches ?? '';
  const expected = `a text that matches /${short(pattern, 100)}/`;
  if (typeof part.value !== 'string') return wrong(expected);
  const matches = matchesInTime(pattern, part.value, looking);
  if (matches !== null) return matches ? null : wrong(expected);
  const message = `'${ptr}' could not be tried on /${short(pattern, 100)}/: patterns may take ${PATTERNS_MS} ms together`;
  return { about: 'value', undecided: true, message };
}

function value(about: Unmet['about'], message: string): Unmet {
  return { about, undecided: false, message };
}

/** Whether the pattern matches somewhere in the text; null when there is no time for that, which some patterns take. */
function matchesInTime(pattern: string, text: string, looking: Looking): boolean | null {
  const timeout = Math.ceil(looking.left_ms);
  if (timeout <= 0) return null;
  const begun = performance.now();
  try {
    return (
      runInNewContext('pattern.test(text)', { pattern: new RegExp(pattern, 'u'), text }, { timeout }) === true
    );
  } catch (error) {
    if (isTimeout(error)) return null;
    throw error;
  } finally {
    looking.left_ms -= performance.now() - begun;
  }
}

/** Also of an error that another realm made. */
function isTimeout(error: unknown): boolean {
  return (
    typeof error === 'object' &&
    error !== null &&
    'code' in error &&
    error.code === 'ERR_SCRIPT_EXECUTION_TIMEOUT'
  );
}

function isEmpty(part: Part | undefined): boolean {
  if (part === undefined) return true;
  if (!('value' in part)) return false;
  const { value: found } = part;
  if (Array.isArray(found)) return found.length === 0;
  return found === null || found === '' || (isObject(found) && Object.keys(found).length === 0);
}

/** What a condition says where it holds. */
function words({ ptr, empty, exit_codes, ...rest }: Condition): string {
  if (exit_codes) return `the exit code is ${orList(exit_codes.map(String))}`;
  if (ptr === undefined) return short(JSON.stringify(rest), 200);
  if (empty !== undefined) return `'${ptr}' is ${empty ? '' : 'not '}empty`;
  return `'${ptr}' holds ${short(JSON.stringify(rest), 200)}`;
}

function shown(wanted: JsonValue): string {
  return short(JSON.stringify(wanted), 60);
}

function orList(all: readonly string[]): string {
  const told = all.length > 20 ? [...all.slice(0, 20), `${all.length - 20} more`] : all;
  return told.length < 2 ? told.join() : `${told.slice(0, -1).join(', ')} or ${told.at(-1)}`;
}
