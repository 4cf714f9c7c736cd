/** The one table from what a child printed and how it ended to verdict, reason, stats and which value it comes to. */
import { type Condition, partsOf, type SubprocessOutput } from '../blueprint/output-schema.ts';
import { isRaw, type JsonValue } from '../json.ts';
import type { ExitStatus, Outcome, Reason, ReportedError } from '../task.ts';
import { asksForRetry, needsDocument, type Unmet, unmet } from './condition.ts';
import { type DocumentView, inWords, type Part } from './document-view.ts';
import { deathOf, type Ending, exitFailure, type Failure, verdict } from './failure.ts';
import { baseStats, readStats } from './stats.ts';
import { head, short } from './text.ts';

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
  /** when a result that is not ok asks for a new attempt */
  readonly retry_when?: Condition | null;
  /** what `output.select` made of stdout, where it is declared */
  readonly selected?: Selected;
}

/** The document that `output.select` made of what the program printed. */
export interface Selected {
  /** why there is none; then stdout counts as text */
  readonly unreadable: string | null;
  /** why the selection without a name took nothing; the document is then `null` */
  readonly nothing: string | null;
  /** about named selections that took nothing */
  readonly notes: readonly string[];
  readonly warnings: readonly string[];
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
  const { output, exit, selected } = child;
  const resultPointer = output?.result_ptr ?? null;
  const rule = okRule(output);
  const base = baseStats(exit, child.model);
  const valueAt = (pointer: string): JsonValue | undefined => {
    const part = find(pointer);
    return part && 'value' in part ? part.value : undefined;
  };
  const stats = output?.stats ? readStats(base, output.stats, valueAt) : base;

  const result = resultPointer === null ? whole : find(resultPointer);
  const missing = missingResult(child, resultPointer, result);
  const reported = reportedBy(output, valueAt);
  const text = result && 'value' in result && typeof result.value === 'string' ? result.value : '';
  // what the program reports is told beside it, and need not be quoted from stdout as well
  const said = text === '' || reported?.message != null ? null : text;
  const ending: Ending = { ...child, stderr, said };
  const death = deathOf(ending);
  const broken = okFailure(rule, child, ending, { find, whole });
  const failure =
    death ??
    (broken?.reason === 'exit_nonzero' ? broken : null) ??
    (missing === null ? null : lacking(child, 'result_missing', missing, whole)) ??
    broken;

  const ignored = rule !== 'exit_code' && !countsExitCode(rule) && death === null && exit.code !== 0;
  const decides = typeof rule === 'string' ? rule : 'its condition';
  const warnings = ignored ? [`exit code ${exit.code} ignored: ok_from ${decides} decides`] : [];
  const choice: Choice =
    missing !== null ? { kind: 'missing', error: missing } : { kind: 'part', pointer: resultPointer };
  return {
    ...told(child, failure, reported, find),
    stats,
    warnings: [...warnings, ...(selected?.warnings ?? [])],
    choice,
  };
}

function aboutText(child: Ended, { said, explain }: TextView, stderr: string): Decision {
  const { output, selected } = child;
  const rule = okRule(output);
  const strict = output?.format != null || selected !== undefined;
  const needsJson = typeof rule === 'string' ? rule !== 'exit_code' : needsDocument(rule);
  const needed =
    output?.result_ptr != null
      ? `result_ptr '${output.result_ptr}'`
      : needsJson && (typeof rule === 'string' ? `ok_from '${rule}'` : 'ok_from');
  const explanation = strict || needed ? (selected?.unreadable ?? explain()) : null;
  const unread: Failure | null =
    explanation === null
      ? null
      : {
          reason: 'stdout_not_json',
          message: needed ? `${needed} cannot be evaluated: ${explanation}` : explanation,
        };
  const ending: Ending = { ...child, stderr, said };
  const find = (): undefined => undefined;
  const broken = okFailure(rule, child, ending, { find, whole: { value: null } });
  const byExit = broken !== null && (broken.reason === 'exit_nonzero' || !needsJson) ? broken : null;
  return {
    ...told(child, deathOf(ending) ?? byExit ?? unread, reportedBy(output, find), find),
    stats: baseStats(child.exit, child.model),
    warnings: selected?.warnings ?? [],
    choice: { kind: 'text', parse_error: strict ? explanation : null },
  };
}

/** Why there is no result, or null where there is one. */
function missingResult(child: Ended, pointer: string | null, result: Part | undefined): string | null {
  if (child.selected?.nothing != null) return child.selected.nothing;
  return result === undefined ? `result_ptr '${pointer}' not found in ${sourceOf(child)}` : null;
}

/** The document that pointers apply to, in words. */
function sourceOf({ selected, output }: Ended): string {
  if (!selected) return 'stdout JSON';
  return output?.select == null
    ? 'the list of all lines (output.select names one of them)'
    : 'what output.select took';
}

/** What decides: the exit code, a pointer to `true`, or a condition. */
function okRule(output: SubprocessOutput | null): string | Condition {
  return output?.ok_from ?? 'exit_code';
}

function countsExitCode(rule: string | Condition): boolean {
  return typeof rule === 'object' && [...partsOf(rule)].some(({ exit_codes }) => exit_codes);
}

interface Looked {
  readonly find: DocumentView['find'];
  readonly whole: Part;
}

/** Why the rule does not let the child pass, or null. */
function okFailure(
  rule: string | Condition,
  child: Ended,
  ending: Ending,
  { find, whole }: Looked,
): Failure | null {
  if (rule === 'exit_code') return exitFailure(ending);
  if (typeof rule === 'string') return pointerFailure(child, rule, find(rule), whole);
  const found = unmet(rule, { exit_code: child.exit.code, find });
  return found && conditionFailure(child, found, ending, whole);
}

function conditionFailure(child: Ended, { about, message }: Unmet, ending: Ending, whole: Part): Failure {
  if (about === 'missing')
    return lacking(child, 'ok_missing', `ok_from ${message} in ${sourceOf(child)}`, whole);
  const exit = about === 'exit' ? exitFailure(ending) : null;
  if (exit) return { ...exit, message: `${exit.message}; ok_from: ${message}` };
  return { reason: 'ok_not_true', message: `ok_from ${message}` };
}

function pointerFailure(child: Ended, pointer: string, found: Part | undefined, whole: Part): Failure | null {
  if (found === undefined)
    return lacking(child, 'ok_missing', `ok_from '${pointer}' not found in ${sourceOf(child)}`, whole);
  if ('value' in found && found.value === true) return null;
  const wrong =
    'value' in found && found.value === false
      ? `ok_from '${pointer}' is false`
      : `ok_from '${pointer}' is ${inWords(found)}, not the boolean true`;
  return { reason: 'ok_not_true', message: wrong };
}

/** What the program itself says went wrong, null where it does not. */
function reportedBy(
  output: SubprocessOutput | null,
  valueAt: (pointer: string) => JsonValue | undefined,
): ReportedError | null {
  const { message_ptr, class_ptr } = output?.error ?? {};
  const at = (pointer: string | null | undefined) =>
    pointer == null ? null : bounded(textOf(valueAt(pointer)));
  const reported = { message: at(message_ptr), class: at(class_ptr) };
  return reported.message === null && reported.class === null ? null : reported;
}

/** The verdict, and of a failure what the program says about it and whether a new attempt is asked for. */
function told(
  child: Ended,
  failure: Failure | null,
  reported: ReportedError | null,
  find: DocumentView['find'],
): Pick<Outcome, 'ok' | 'reason' | 'message' | 'reported_error' | 'retry'> {
  if (failure === null) return verdict(null);
  const words = [reported?.class, reported?.message].filter((part) => part != null).join(': ');
  const message = reported
    ? `${failure.message}; the program reports: ${short(words, 500)}`
    : failure.message;
  const again = asksForRetry(child.retry_when, failure.reason, { exit_code: child.exit.code, find });
  return {
    ...verdict({ ...failure, message }),
    ...(reported && { reported_error: reported }),
    ...(again && { retry: true }),
  };
}

/** All of it is in the output. */
function bounded(text: string | null): string | null {
  if (text === null || text.length <= MAX_REPORTED) return text;
  return `${head(text, MAX_REPORTED)}… (${text.length} characters)`;
}
const MAX_REPORTED = 4000;

function textOf(value: JsonValue | undefined): string | null {
  if (typeof value === 'string') return value;
  return typeof value === 'number' || isRaw(value) ? JSON.stringify(value) : null;
}

function lacking({ selected }: Ended, reason: Reason, what: string, whole: Part): Failure {
  const notes = selected && selected.notes.length > 0 ? `; ${selected.notes.join('; ')}` : '';
  const about = selected?.nothing == null ? `, which is ${inWords(whole)}` : '';
  return { reason, message: `${what}${about}${notes}` };
}
