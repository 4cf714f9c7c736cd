/** The JSON that a program printed, as far as it can be looked at. */
import type { JsonValue } from '../json.ts';
import { describe } from './failure.ts';

/** A part of the JSON on stdout: its value, or, too large to be looked at, what it is in words. */
export type Part = { readonly value: JsonValue } | { readonly large: string };

/** One JSON document, whose parts are found by pointer. */
export interface DocumentView {
  readonly whole: Part;
  /** undefined for a miss */
  readonly find: (pointer: string) => Part | undefined;
}

/** What a part is, for a message. */
export function inWords(part: Part): string {
  return 'value' in part ? describe(part.value) : part.large;
}
