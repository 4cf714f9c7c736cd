/** Checks that every string handed to a child shares. */
import { isValidTemplate, unknownPlaceholders } from './placeholders.ts';

/** What is wrong, without saying where: the caller knows whose string it is. */
export interface Problem {
  readonly code: string;
  readonly message: string;
}

/** A template that becomes an argument, an environment value or a directory: its tokens, and no NUL byte. */
export function* argumentProblems(text: string): Generator<Problem> {
  yield* templateProblems(text);
  yield* nulProblems(text);
}

/** Unknown placeholders of a template. */
export function* templateProblems(text: string): Generator<Problem> {
  for (const { message } of unknownPlaceholders(text)) yield { code: 'unknown_placeholder', message };
}

export function* nulProblems(text: string): Generator<Problem> {
  const at = text.indexOf('\0');
  if (at === -1) return;
  const message = `a NUL byte at offset ${at}, which no program can receive; remove it or send it on stdin`;
  yield { code: 'nul_byte', message };
}

/** Whether `argumentProblems` finds nothing, at a fraction of the cost. */
export function isSoundArgument(text: string): boolean {
  return isValidTemplate(text) && !text.includes('\0');
}
