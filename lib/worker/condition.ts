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
  /** exit: only the exit code is not as wanted · missing: a value that it needs is not there · value: all else */
  readonly about: 'exit' | 'missing' | 'value';
  /** the condition and what was found */
  readonly message: string;
}

/** Whether the condition needs the JSON of the program. */
export function needsDocument(condition: Condition): boolean {
  return pointersOf(condition).length > 0;
}

/** The pointers that a condition names. */
export function pointersOf(condition: Condition): string[] {
  return [...partsOf(condition)].flatMap(({ ptr }) => ptr ?? []);
}

/** Why the condition does not hold, or null where it does. A missing value holds nothing but `empty`. */
export function unmet(condition: Condition, facts: Facts): Unmet | null {
  const { ptr, exit_codes, all, any, not } = condition;
  if (ptr !== undefined) return testValue(condition, ptr, facts.find(ptr));
  if (exit_codes) return testExit(exit_codes, facts.exit_code);
  if (all) return exitFirst(all).reduce<Unmet | null>((found, part) => found ?? unmet(part, facts), null);
  if (any) return testAny(any, facts);
  return not ? testNot(not, facts) : null;
}

/** Whether a result that is not ok asks for a new attempt; one that was cancelled never does. */
export function asksForRetry(when: Condition | null | undefined, reason: Reason, facts: Facts): boolean {
  return when != null && reason !== 'cancelled' && unmet(when, facts) === null;
}

function testExit(wanted: readonly number[], code: number | null): Unmet | null {
  if (code !== null && wanted.includes(code)) return null;
  return { about: 'exit', message: `exit code ${code} is not ${orList(wanted.map(String))}` };
}

/** The exit code is the earlier cause of what else does not hold. */
function exitFirst(parts: readonly Condition[]): Condition[] {
  return [...parts.filter(({ exit_codes }) => exit_codes), ...parts.filter(({ exit_codes }) => !exit_codes)];
}

function testAny(parts: readonly Condition[], facts: Facts): Unmet | null {
  const found = parts.map((part) => unmet(part, facts));
  if (found.includes(null)) return null;
  const messages = found.map((each) => each!.message).join('; ');
  const about = found.every((each) => each!.about === found[0]!.about) ? found[0]!.about : 'value';
  return { about, message: parts.length === 1 ? messages : `none of ${parts.length} holds: ${messages}` };
}

function testNot(inner: Condition, facts: Facts): Unmet | null {
  const found = unmet(inner, facts);
  if (found?.about === 'missing') return found;
  return found ? null : { about: 'value', message: `${words(inner)}, which must not be` };
}

function testValue(condition: Condition, ptr: string, part: Part | undefined): Unmet | null {
  const { empty } = condition;
  if (empty !== undefined) {
    if (isEmpty(part) === empty) return null;
    const found = part === undefined ? 'not there' : inWords(part);
    return {
      about: 'value',
      message: `'${ptr}' is ${found}, ${empty ? 'expected nothing' : 'expected something'}`,
    };
  }
  if (part === undefined) return { about: 'missing', message: `'${ptr}' not found` };
  const wrong = (expected: string): Unmet => ({
    about: 'value',
    message: `'${ptr}' is ${inWords(part)}, expected ${expected}`,
  });
  const equals = (wanted: JsonValue): boolean => 'value' in part && jsonEquals(part.value, wanted);
  if (Object.hasOwn(condition, 'equals')) {
    const wanted = condition.equals ?? null;
    return equals(wanted) ? null : wrong(shown(wanted));
  }
  if (Object.hasOwn(condition, 'not_equals')) {
    const unwanted = condition.not_equals ?? null;
    return equals(unwanted) ? wrong(`anything but ${shown(unwanted)}`) : null;
  }
  if (condition.in) return condition.in.some(equals) ? null : wrong(orList(condition.in.map(shown)));
  return testPattern(condition.matches ?? '', part, wrong);
}

function testPattern(pattern: string, part: Part, wrong: (expected: string) => Unmet): Unmet | null {
  if (!('value' in part) || typeof part.value !== 'string') return wrong(`a text that matches /${pattern}/`);
  const matches = matchesInTime(pattern, part.value);
  if (matches === null) return wrong(`a text that /${pattern}/ can be tried on within ${MATCH_MS} ms`);
  return matches ? null : wrong(`a text that matches /${pattern}/`);
}

/** Milliseconds that a pattern may take. */
const MATCH_MS = 100;

/** Whether the pattern matches somewhere in the text; null when that takes too long, as some patterns make it. */
function matchesInTime(pattern: string, text: string): boolean | null {
  const context = { pattern: new RegExp(pattern, 'u'), text };
  try {
    return runInNewContext('pattern.test(text)', context, { timeout: MATCH_MS }) === true;
  } catch {
    return null;
  }
}

function isEmpty(part: Part | undefined): boolean {
  if (part === undefined) return true;
  if (!('value' in part)) return false;
  const { value } = part;
  if (Array.isArray(value)) return value.length === 0;
  return value === null || value === '' || (isObject(value) && Object.keys(value).length === 0);
}

/** What a condition says where it holds. */
function words({ ptr, empty, exit_codes, ...rest }: Condition): string {
  if (exit_codes) return `the exit code is ${orList(exit_codes.map(String))}`;
  if (ptr === undefined) return short(JSON.stringify(rest), 200);
  if (empty !== undefined) return `'${ptr}' is ${empty ? '' : 'not '}empty`;
  return `'${ptr}' holds ${short(JSON.stringify(rest), 200)}`;
}

function shown(value: JsonValue): string {
  return short(JSON.stringify(value), 60);
}

function orList(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}
