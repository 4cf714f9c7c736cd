/** What a child's output means: stdout, stderr, exit status and the template's declaration to an Outcome. */
import { constants } from 'node:buffer';
import type { SubprocessOutput } from '../blueprint/schema.ts';
import type { JsonValue } from '../json.ts';
import { parseJson, resolvePointer } from '../json.ts';
import type { ExitStatus, Outcome, Reason } from '../task.ts';
import { deathOf, describe, type Ending, exitFailure, type Failure, verdict } from './failure.ts';
import { explainJsonFailure } from './json-failure.ts';
import { baseStats, readStats } from './stats.ts';
import { decodeUtf8, trim, trimEnd } from './text.ts';

export interface ChildOutput {
  readonly stdout: Uint8Array;
  readonly stderr: string;
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

/**
 * Decides value and verdict of a child that has ended; a failure is data, nothing is thrown. The reason is the
 * earliest cause: the supervisor's, a signal, the exit code where it decides, then what stdout lacks.
 */
export function normalize(child: ChildOutput): Outcome {
  const read = readStdout(child.stdout);
  return 'document' in read ? fromDocument(child, read.document) : fromText(child, read);
}

function fromDocument(child: ChildOutput, document: JsonValue): Outcome {
  const { output, exit, stderr } = child;
  const resultPointer = output?.result_ptr ?? null;
  const okPointer = okPointerOf(output);
  const base = baseStats(exit, child.model);
  const stats = output?.stats ? readStats(base, document, output.stats) : base;

  const result = resultPointer === null ? document : resolvePointer(document, resultPointer);
  const missing = `result_ptr '${resultPointer}' not found in stdout JSON`;
  const value = result === undefined ? { error: missing, raw: document, stderr } : result;
  const ending = { ...child, said: typeof value === 'string' && value !== '' ? value : null };
  const death = deathOf(ending);
  const failure =
    death ??
    (okPointer === null ? exitFailure(ending) : null) ??
    (result === undefined ? lacking('result_missing', missing, document) : null) ??
    (okPointer === null ? null : okFailure(document, okPointer));

  const ignored = okPointer !== null && death === null && exit.code !== 0;
  const warnings = ignored ? [`exit code ${exit.code} ignored: ok_from ${okPointer} decides`] : [];
  return { ...verdict(failure), value, stats, warnings };
}

function fromText(child: ChildOutput, { raw, tooLong, explain }: UnreadText): Outcome {
  const { output, stderr, stdout } = child;
  const okPointer = okPointerOf(output);
  const strict = output?.format != null;
  const needed =
    output?.result_ptr != null ? `result_ptr '${output.result_ptr}'` : okPointer && `ok_from '${okPointer}'`;
  const explanation = strict || tooLong || needed !== null ? explain() : null;
  const unread: Failure | null =
    explanation === null
      ? null
      : {
          reason: tooLong ? 'output_limit' : 'stdout_not_json',
          message: needed === null ? explanation : `${needed} cannot be evaluated: ${explanation}`,
        };
  const ending: Ending = { ...child, said: raw === '' && stdout.length > 0 ? null : raw };
  const failure = deathOf(ending) ?? (okPointer === null ? exitFailure(ending) : null) ?? unread;
  const value = { raw, stderr, ...(strict && explanation !== null && { parse_error: explanation }) };
  return { ...verdict(failure), value, stats: baseStats(child.exit, child.model), warnings: [] };
}

interface UnreadText {
  readonly raw: string;
  readonly tooLong: boolean;
  readonly explain: () => string;
}

function readStdout(stdout: Uint8Array): { readonly document: JsonValue } | UnreadText {
  const { MAX_STRING_LENGTH } = constants;
  if (stdout.length > MAX_STRING_LENGTH) {
    const explain = () =>
      `stdout has ${stdout.length} bytes; at most ${MAX_STRING_LENGTH} can be read as one value`;
    return { raw: '', tooLong: true, explain };
  }
  const text = decodeUtf8(stdout);
  try {
    return { document: parseOne(trim(text)) };
  } catch (error) {
    return { raw: trimEnd(text), tooLong: false, explain: () => explainJsonFailure(text, error) };
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

function okPointerOf(output: SubprocessOutput | null): string | null {
  const from = output?.ok_from ?? 'exit_code';
  return from === 'exit_code' ? null : from;
}

function okFailure(document: JsonValue, pointer: string): Failure | null {
  const found = resolvePointer(document, pointer);
  if (found === true) return null;
  if (found === undefined)
    return lacking('ok_missing', `ok_from '${pointer}' not found in stdout JSON`, document);
  const wrong =
    found === false
      ? `ok_from '${pointer}' is false`
      : `ok_from '${pointer}' is ${describe(found)}, not the boolean true`;
  return { reason: 'ok_not_true', message: wrong };
}

function lacking(reason: Reason, what: string, document: JsonValue): Failure {
  return { reason, message: `${what}, which is ${describe(document)}` };
}
