/** What the terminal prints and how it exits. */
import { type ErrorCode, errorBody, type Issue, StepspawnError } from '../lib/errors.ts';

export const EXIT = { ok: 0, notPassed: 1, refused: 2, unavailable: 3, usage: 64, interrupted: 130 } as const;

const UNAVAILABLE = new Set<ErrorCode>(['StoreUnavailable', 'InternalError']);

/** Wrong usage that the argument parser cannot see. */
export class UsageError extends Error {}

/** One JSON document on stdout: indented for a person at a terminal, else one compact line. */
export function print(value: unknown): void {
  process.stdout.write(`${process.stdout.isTTY ? JSON.stringify(value, null, 2) : JSON.stringify(value)}\n`);
}

/** Prints the error and sets the exit code; what is not an error of ours is told in full on stderr. */
export function fail(error: unknown): void {
  const body = errorBody(error);
  if (!(error instanceof StepspawnError))
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  print({ error: body });
  process.exitCode = UNAVAILABLE.has(body.code) ? EXIT.unavailable : EXIT.refused;
}

/** A line for people. */
export function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** An issue as compilers print theirs: file, line, column, severity, code, pointer, message. */
export function issueLine(file: string, { line, column, severity, code, path, message }: Issue): string {
  const place = line === undefined ? file : `${file}:${line}:${column}`;
  return `${place}: ${severity} ${code}${path === '' ? '' : ` ${path}`}: ${message}`;
}
