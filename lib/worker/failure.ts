/** Why a child does not pass, in the order of precedence, with the words for a person. */
import type { JsonValue } from '../json.ts';
import { isObject, isRaw } from '../json.ts';
import type { ExitStatus, Outcome, Reason } from '../task.ts';
import { lastLine, short, trim } from './text.ts';

export interface Failure {
  readonly reason: Reason;
  readonly message: string;
}

/** How a child ended, and what it said. */
export interface Ending {
  readonly exit: ExitStatus;
  /** why the supervisor ended the child; such a child never passes */
  readonly cause: Reason | null;
  /** more about `cause` for the message, such as `after 30 s` */
  readonly detail?: string;
  readonly stderr: string;
  /** what stdout said as text; `''`: nothing was seen; null: something, but no text to quote */
  readonly said: string | null;
}

const CAUSES: Partial<Record<Reason, string>> = {
  timed_out: 'timed out',
  cancelled: 'cancelled',
  output_limit: 'stopped because it printed more than is allowed',
  silent: 'stopped because it printed nothing for the declared time',
};

/** The supervisor's cause, else death by a signal: neither ever passes. */
export function deathOf(ending: Ending): Failure | null {
  const { cause, detail, exit } = ending;
  if (cause !== null) {
    const what = `${CAUSES[cause] ?? cause}${detail === undefined ? '' : ` ${detail}`}`;
    const silence = ending.said === '' && ending.stderr === '' ? '; no output was seen at all' : '';
    return { reason: cause, message: `${what}${silence || lastWords(ending)}` };
  }
  if (exit.signal !== null) {
    const guess = exit.signal === 'SIGKILL' ? ' (out of memory?)' : '';
    return { reason: 'signalled', message: `killed by ${exit.signal}${guess}${lastWords(ending)}` };
  }
  return exit.code === null ? { reason: 'signalled', message: 'ended without an exit code' } : null;
}

/** A non-zero exit code. */
export function exitFailure(ending: Ending): Failure | null {
  const { code } = ending.exit;
  if (code === 0) return null;
  const known = code === 127 ? ' (command not found)' : code === 126 ? ' (not executable)' : '';
  return { reason: 'exit_nonzero', message: `exit code ${code}${known}${lastWords(ending)}` };
}

function lastWords({ stderr, said }: Ending): string {
  const error = trim(lastLine(stderr));
  if (error !== '') return `; stderr ends with: ${short(error, 200)}`;
  const text = trim(lastLine(said ?? ''));
  return text === '' ? '' : `; stdout says: ${short(text, 200)}`;
}

/** The verdict part of an Outcome. */
export function verdict(failure: Failure | null): Pick<Outcome, 'ok' | 'reason' | 'message'> {
  return { ok: failure === null, reason: failure?.reason ?? null, message: failure?.message ?? null };
}

/** A JSON value in a few words: `"true" (a string)`, `an object with the keys a, b`. */
export function describe(value: JsonValue): string {
  if (value === null) return 'null';
  if (typeof value === 'string') return `"${short(value, 60)}" (a string)`;
  if (typeof value === 'boolean') return `${value} (a boolean)`;
  if (typeof value === 'number' || isRaw(value)) return `${short(JSON.stringify(value), 60)} (a number)`;
  if (Array.isArray(value)) return `a list of ${value.length} ${value.length === 1 ? 'item' : 'items'}`;
  const keys = isObject(value) ? Object.keys(value) : [];
  if (keys.length === 0) return 'an empty object';
  const shown = keys.slice(0, 8).map((key) => short(key, 40));
  return `an object with the ${keys.length === 1 ? 'key' : 'keys'} ${shown.join(', ')}${keys.length > 8 ? ', …' : ''}`;
}
