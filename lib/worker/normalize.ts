/** What a child's output means that fits in memory: stdout, stderr and how it ended to an Outcome. */
import type { JsonValue } from '../json.ts';
import { parseJson, resolvePointer } from '../json.ts';
import type { Outcome } from '../task.ts';
import { decide, type Ended } from './decision.ts';
import type { Part } from './document-view.ts';
import { explainJsonFailure } from './json-failure.ts';
import { decodeUtf8, trim, trimEnd } from './text.ts';

export interface ChildOutput extends Ended {
  readonly stdout: Uint8Array;
  readonly stderr: string;
}

/** Decides value and verdict of a child that has ended; a failure is data, nothing is thrown. */
export function normalize(child: ChildOutput): Outcome {
  const text = decodeUtf8(child.stdout);
  const read = child.selected?.unreadable ? { error: null } : readDocument(text);
  return 'error' in read ? fromText(child, text, read.error) : fromDocument(child, read.document);
}

function fromDocument(child: ChildOutput, document: JsonValue): Outcome {
  const find = (pointer: string): Part | undefined => {
    const value = resolvePointer(document, pointer);
    return value === undefined ? undefined : { value };
  };
  const { stderr } = child;
  const { choice, ...outcome } = decide(child, { stdout: { whole: { value: document }, find }, stderr });
  if (choice.kind === 'missing') return { ...outcome, value: { error: choice.error, raw: document, stderr } };
  const pointer = choice.kind === 'part' ? choice.pointer : null;
  return { ...outcome, value: pointer === null ? document : (resolvePointer(document, pointer) ?? null) };
}

function fromText(child: ChildOutput, text: string, error: unknown): Outcome {
  const { stderr } = child;
  const raw = trimEnd(text);
  const { choice, ...outcome } = decide(child, {
    stdout: {
      said: raw === '' && text !== '' ? null : raw,
      explain: () => explainJsonFailure(text, error, null),
    },
    stderr,
  });
  const parse_error = choice.kind === 'text' ? choice.parse_error : null;
  return { ...outcome, value: { raw, stderr, ...(parse_error !== null && { parse_error }) } };
}

function readDocument(text: string): { readonly document: JsonValue } | { readonly error: unknown } {
  try {
    return { document: parseOne(trim(text)) };
  } catch (error) {
    return { error };
  }
}

/** One leading byte-order mark is ignored; prose is refused by its first character, however long it is. */
function parseOne(trimmed: string): JsonValue {
  const body = trimmed.charCodeAt(0) === BOM ? trim(trimmed.slice(1)) : trimmed;
  if (body.charCodeAt(0) === BOM) throw new Error('two byte-order marks before the JSON document');
  return parseJson(STARTS_LIKE_JSON.test(body) ? body : body.slice(0, 64));
}
const BOM = 0xfeff;
const STARTS_LIKE_JSON = /^[[{"\-0-9tfn]/;
