/** JSON documents as people write them: comments and trailing commas are allowed, positions are kept. */
import { createScanner, printParseErrorCode, visit } from 'jsonc-parser';
import { JsonError, type JsonValue, MAX_DEPTH, parseJson } from '../json.ts';
import { shorten } from './nearest.ts';
import { type ReadText, unescapeSegments } from './source-text.ts';

/** Reads the text as strict JSON, and only if that fails with comments and trailing commas blanked out. */
export function readJsonText(text: string): ReadText {
  if (text.trim() === '') return { ok: false, code: 'not_json', message: 'the document is empty', offset: 0 };
  const strict = attempt(text);
  if (strict.ok) return { ...strict, offsets: (pointers) => offsetsOf(text, pointers) };
  const blanked = strict.error.code === 'too_deep' ? text : blankExtras(text);
  const loose = blanked === text ? strict : attempt(blanked);
  if (loose.ok) return { ...loose, offsets: (pointers) => offsetsOf(blanked, pointers) };
  const { code, message } = loose.error;
  if (code === 'too_deep') {
    return { ok: false, code, message: `nested deeper than ${MAX_DEPTH} levels`, offset: tooDeepAt(message) };
  }
  const found = firstError(blanked);
  return { ok: false, code, message: `not JSON: ${found?.message ?? message}`, offset: found?.offset };
}

/** Whether the first token, after white space and comments, opens an object or a list. */
export function beginsLikeJson(text: string): boolean {
  const token = Number(createScanner(text, true).scan());
  return token === TOKEN.openBrace || token === TOKEN.openBracket;
}

type Attempt =
  | { readonly ok: true; readonly value: JsonValue }
  | { readonly ok: false; readonly error: JsonError };

function attempt(text: string): Attempt {
  try {
    return { ok: true, value: parseJson(text) };
  } catch (error) {
    if (error instanceof JsonError) return { ok: false, error };
    throw error;
  }
}

function tooDeepAt(message: string): number | undefined {
  const position = /position (\d+)/.exec(message)?.[1];
  return position === undefined ? undefined : Number(position);
}

/** Kinds of tokens as the scanner numbers them; its own enum does not exist at run time. */
const TOKEN = {
  openBrace: 1,
  closeBrace: 2,
  openBracket: 3,
  closeBracket: 4,
  comma: 5,
  lineComment: 12,
  blockComment: 13,
  blank: 15,
  end: 17,
};
const AFTER_VALUE: ReadonlySet<number> = new Set([TOKEN.closeBrace, TOKEN.closeBracket, 7, 8, 9, 10, 11]);

/** The text with comments and trailing commas replaced by spaces, so that every offset stays. */
function blankExtras(text: string): string {
  const scanner = createScanner(text, false);
  const parts: string[] = [];
  let copied = 0;
  const blank = (start: number, length: number): void => {
    parts.push(text.slice(copied, start), text.slice(start, start + length).replace(/[^\r\n]/g, ' '));
    copied = start + length;
  };
  const extras: [start: number, length: number][] = [];
  let before = 0;
  let comma: number | undefined;
  for (let token = Number(scanner.scan()); token !== TOKEN.end; token = Number(scanner.scan())) {
    const start = scanner.getTokenOffset();
    if (token === TOKEN.lineComment || token === TOKEN.blockComment)
      extras.push([start, scanner.getTokenLength()]);
    if (token >= TOKEN.lineComment && token <= TOKEN.blank) continue;
    const closes = token === TOKEN.closeBrace || token === TOKEN.closeBracket;
    if (closes && comma !== undefined) extras.push([comma, 1]);
    comma = token === TOKEN.comma && AFTER_VALUE.has(before) ? start : undefined;
    before = token;
  }
  for (const [start, length] of extras.sort(([a], [b]) => a - b)) blank(start, length);
  return parts.length === 0 ? text : parts.join('') + text.slice(copied);
}

interface Fault {
  readonly offset: number;
  readonly message: string;
}

const FAULTS: Readonly<Record<string, string>> = {
  InvalidSymbol: 'unexpected text',
  InvalidNumberFormat: 'a malformed number',
  PropertyNameExpected: 'expected a property name in double quotes',
  ValueExpected: 'expected a value',
  ColonExpected: 'expected : after the property name',
  CommaExpected: 'expected , before the next element',
  CloseBraceExpected: 'expected , or }',
  CloseBracketExpected: 'expected , or ]',
  EndOfFileExpected: 'expected nothing after the end of the document',
  UnexpectedEndOfComment: 'a comment that is not closed',
  UnexpectedEndOfString: 'a string that is not closed',
  UnexpectedEndOfNumber: 'an unfinished number',
  InvalidUnicode: 'a malformed \\u escape in a string',
  InvalidEscapeCharacter: 'an unknown escape in a string',
  InvalidCharacter: 'a control character in a string',
};

/** Where the text stops being JSON; up to there it is, so that its nesting is bounded. */
function firstError(text: string): Fault | undefined {
  let fault: Fault | undefined;
  const stop = (offset: number, message: string): never => {
    fault = { offset, message };
    throw STOP;
  };
  try {
    visit(text, {
      onError(code, offset, length) {
        const got =
          offset >= text.length ? 'the end of the text' : shown(text.slice(offset, offset + length));
        stop(offset, `${FAULTS[printParseErrorCode(code)] ?? 'unexpected text'}, got ${got}`);
      },
      onObjectProperty: (name, offset) => {
        if (!name.isWellFormed()) stop(offset, LONE_SURROGATE);
      },
      onLiteralValue: (value, offset, length) => {
        if (typeof value === 'string' && !value.isWellFormed()) stop(offset, LONE_SURROGATE);
        if (typeof value === 'number' && !Number.isFinite(value)) {
          stop(offset, `number out of range: ${shorten(text.slice(offset, offset + length))}`);
        }
      },
    });
  } catch (error) {
    if (error !== STOP) throw error;
  }
  return fault;
}
const STOP = new Error('stop');
const LONE_SURROGATE = 'a lone surrogate in a string escape';

function shown(text: string): string {
  return shorten(JSON.stringify(text));
}

/** What pointers name, as a tree, so that one pass over the text finds all of them. */
interface Wanted {
  readonly inner: Map<string, Wanted>;
  offset?: number;
}

function offsetsOf(text: string, pointers: readonly string[]): (number | undefined)[] {
  const root: Wanted = { inner: new Map() };
  for (const pointer of pointers) want(root, unescapeSegments(pointer));
  const open: { readonly wanted: Wanted | undefined; index: number }[] = [];
  let next: Wanted | undefined = root;
  const place = (offset: number): void => {
    if (next) next.offset = offset;
  };
  const enter = (offset: number, isList: boolean): void => {
    place(offset);
    open.push({ wanted: next, index: isList ? 0 : -1 });
    next = isList ? next?.inner.get('0') : undefined;
  };
  const leave = (): void => {
    open.pop();
  };
  visit(text, {
    onObjectBegin: (offset) => enter(offset, false),
    onArrayBegin: (offset) => enter(offset, true),
    onObjectEnd: leave,
    onArrayEnd: leave,
    onLiteralValue: (_value, offset) => place(offset),
    onObjectProperty: (name) => {
      next = open.at(-1)?.wanted?.inner.get(name);
    },
    onSeparator: (character) => {
      const list = open.at(-1);
      if (character !== ',' || !list || list.index < 0) return;
      list.index++;
      next = list.wanted?.inner.get(String(list.index));
    },
  });
  return pointers.map((pointer) => deepest(root, unescapeSegments(pointer)));
}

function want(root: Wanted, path: readonly string[]): void {
  let at = root;
  for (const key of path) {
    const inner: Wanted = at.inner.get(key) ?? { inner: new Map() };
    at.inner.set(key, inner);
    at = inner;
  }
}

function deepest(root: Wanted, path: readonly string[]): number | undefined {
  let { offset } = root;
  let at: Wanted | undefined = root;
  for (const key of path) {
    at = at.inner.get(key);
    if (at?.offset === undefined) break;
    offset = at.offset;
  }
  return offset;
}
