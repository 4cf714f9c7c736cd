/** The one table from what a child printed and how it ended to verdict, reason, stats and which value it comes to. */
import type { SubprocessOutput } from '../blueprint/schema.ts';
import type { JsonValue } from '../json.ts';
import type { ExitStatus, Outcome, Reason } from '../task.ts';
import { deathOf, describe, type Ending, exitFailure, type Failure, verdict } from './failure.ts';
import { baseStats, readStats } from './stats.ts';

/** How a child ended, and what its template declares about its output. */
export interface Ended {
  readonly exit: ExitStatus;
  /** null: nothing declared, JSON or else text, ok by exit code */
  readonly output: SubprocessOutput | null;
  /** the declared model */
  readonly model: string | null;
  /** why the supervisor ended the child; such a child never passes */
  readonly cause: Reason | null;
  /** more about `cause` for the message, such as `after 30 s` */
  readonly detail?: string;
}

/** A part of the JSON on stdout: its value, or, too large to be looked at, what it is in words. */
export type Part = { readonly value: JsonValue } | { readonly large: string };

/** One JSON document, whose parts are found by pointer. */
export interface DocumentView {
  readonly whole: Part;
  /** undefined for a miss */
  readonly find: (pointer: string) => Part | undefined;
}

export interface TextView {
  /** the last line at least, without trailing white space; `''`: nothing was printed; null: only white space */
  readonly said: string | null;
  /** why it is no JSON document, and what to change */
  readonly explain: () => string;
}

export interface Printout {
  readonly stdout: DocumentView | TextView;
  /** the last line at least; `''` only when nothing was printed */
  readonly stderr: string;
}

export type Choice =
  /** the document; with a pointer, that part of it */
  | { readonly kind: 'part'; readonly pointer: string | null }
  /** the error beside the document as `raw`, and stderr */
  | { readonly kind: 'missing'; readonly error: string }
  /** the text without trailing white space as `raw`, stderr, and where not null `parse_error` */
  | { readonly kind: 'text'; readonly parse_error: string | null };

export interface Decision extends Omit<Outcome, 'value'> {
  readonly choice: Choice;
}

/**
 * Decides about a child that has ended; a failure is data, nothing is thrown. The reason is the earliest cause: the
 * supervisor's, a signal, the exit code where it decides, then what stdout lacks.
 */
export function decide(child: Ended, { stdout, stderr }: Printout): Decision {
  return 'whole' in stdout ? aboutDocument(child, stdout, stderr) : aboutText(child, stdout, stderr);
}

function aboutDocument(child: Ended, { whole, find }: DocumentView, stderr: string): Decision {
  const { output, exit } = child;
  const resultPointer = output?.result_ptr ?? null;
  const okPointer = okPointerOf(output);
  const base = baseStats(exit, child.model);
  const valueAt = (pointer: string): JsonValue | undefined => {
    const part = find(pointer);
    return part && 'value' in part ? part.value : undefined;
  };
  const stats = output?.stats ? readStats(base, output.stats, valueAt) : base;

  const result = resultPointer === null ? whole : find(resultPointer);
  const missing = `result_ptr '${resultPointer}' not found in stdout JSON`;
  const said = result && 'value' in result && typeof result.value === 'string' ? result.value : '';
  const ending: Ending = { ...child, stderr, said: said === '' ? null : said };
  const death = deathOf(ending);
  const failure =
    death ??
    (okPointer === null ? exitFailure(ending) : null) ??
    (result === undefined ? lacking('result_missing', missing, whole) : null) ??
    (okPointer === null ? null : okFailure(okPointer, find(okPointer), whole));

  const ignored = okPointer !== null && death === null && exit.code !== 0;
  const warnings = ignored ? [`exit code ${exit.code} ignored: ok_from ${okPointer} decides`] : [];
  const choice: Choice =
    result === undefined ? { kind: 'missing', error: missing } : { kind: 'part', pointer: resultPointer };
  return { ...verdict(failure), stats, warnings, choice };
}

function aboutText(child: Ended, { said, explain }: TextView, stderr: string): Decision {
  const { output } = child;
  const okPointer = okPointerOf(output);
  const strict = output?.format != null;
  const needed =
    output?.result_ptr != null ? `result_ptr '${output.result_ptr}'` : okPointer && `ok_from '${okPointer}'`;
  const explanation = strict || needed !== null ? explain() : null;
  const unread: Failure | null =
    explanation === null
      ? null
      : {
          reason: 'stdout_not_json',
          message: needed === null ? explanation : `${needed} cannot be evaluated: ${explanation}`,
        };
  const ending: Ending = { ...child, stderr, said };
  const failure = deathOf(ending) ?? (okPointer === null ? exitFailure(ending) : null) ?? unread;
  return {
    ...verdict(failure),
    stats: baseStats(child.exit, child.model),
    warnings: [],
    choice: { kind: 'text', parse_error: strict ? explanation : null },
  };
}

/** The pointer that decides instead of the exit code, or null. */
function okPointerOf(output: SubprocessOutput | null): string | null {
  const from = output?.ok_from ?? 'exit_code';
  return from === 'exit_code' ? null : from;
}

function okFailure(pointer: string, found: Part | undefined, whole: Part): Failure | null {
  if (found === undefined)
    return lacking('ok_missing', `ok_from '${pointer}' not found in stdout JSON`, whole);
  if ('value' in found && found.value === true) return null;
  const wrong =
    'value' in found && found.value === false
      ? `ok_from '${pointer}' is false`
      : `ok_from '${pointer}' is ${inWords(found)}, not the boolean true`;
  return { reason: 'ok_not_true', message: wrong };
}

function lacking(reason: Reason, what: string, whole: Part): Failure {
  return { reason, message: `${what}, which is ${inWords(whole)}` };
}

function inWords(part: Part): string {
  return 'value' in part ? describe(part.value) : part.large;
}
