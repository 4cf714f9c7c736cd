/** Says in one line why a child's stdout is not one JSON document, and what to change. */
import { parseJson } from '../json.ts';
import { short, trim } from './text.ts';

/** What the hints look at; beyond it only the parser's own words are given. */
export const INSPECTED_CHARACTERS = 1 << 20;
const INSPECTED_LINES = 1000;
/** Lines from which a parse of all that follows is tried. */
const TRIED_STARTS = 20;

/**
 * The parser's complaint with a hint. `text` is stdout, or its beginning where `tail` is its end; what lies between
 * is not looked at.
 */
export function explainJsonFailure(text: string, error: unknown, tail: string | null): string {
  if (text === '') return 'stdout is empty, expected one JSON document';
  if (tail === null && trim(text) === '') return 'stdout holds only white space, expected one JSON document';
  const parser = short(error instanceof Error ? error.message : String(error), 300);
  const complaint = `stdout is not JSON: ${parser.charAt(0).toLowerCase()}${parser.slice(1)}`;
  for (const hint of [escapeHint, fenceHint, linesHint, startHint]) {
    const said = hint(text, tail);
    if (said !== undefined) return `${complaint}; ${said}`;
  }
  return complaint;
}

function escapeHint(text: string, tail: string | null): string | undefined {
  const at = text.indexOf('\u001b');
  if (at === -1)
    return tail?.includes('\u001b') ? `escape character U+001B near the end: ${COLOURS}` : undefined;
  const line = text.slice(0, at).split('\n', INSPECTED_LINES).length;
  const where = line < INSPECTED_LINES ? `position ${at} (line ${line})` : `position ${at}`;
  return `escape character U+001B at ${where}: ${COLOURS}`;
}
const COLOURS = 'the program colours its output, set NO_COLOR=1 in env';

function fenceHint(text: string): string | undefined {
  if (!trim(text).startsWith('```')) return undefined;
  return 'the output stands in a Markdown code fence: have the program print the bare JSON';
}

function linesHint(text: string, tail: string | null): string | undefined {
  const lines = inspectedLines(text, tail).filter((line) => trim(line) !== '');
  if (lines.length < 2 || !lines.every((line) => parses(line))) return undefined;
  const many = isCut(text, tail) || lines.length >= INSPECTED_LINES ? 'at least ' : '';
  return `${many}${lines.length} JSON documents, one per line: use format "jsonl" and select the one that counts`;
}

function startHint(text: string, tail: string | null): string | undefined {
  if (isCut(text, tail)) return undefined;
  let offset = 0;
  let tried = 0;
  for (const [index, line] of inspectedLines(text, tail).entries()) {
    const first = trim(line).charAt(0);
    if (index > 0 && (first === '{' || first === '[')) {
      if (parses(text.slice(offset))) {
        return `a JSON document starts at line ${index + 1}: print log lines to stderr, only JSON to stdout`;
      }
      if (++tried === TRIED_STARTS) return undefined;
    }
    offset += line.length + 1;
  }
  return undefined;
}

/** The complete lines among the first megabyte, at most 1000. */
function inspectedLines(text: string, tail: string | null): string[] {
  const lines = text.slice(0, INSPECTED_CHARACTERS).split('\n', INSPECTED_LINES);
  if (isCut(text, tail) && lines.length < INSPECTED_LINES) lines.pop();
  return lines;
}

function isCut(text: string, tail: string | null): boolean {
  return tail !== null || text.length > INSPECTED_CHARACTERS;
}

function parses(text: string): boolean {
  try {
    parseJson(trim(text));
    return true;
  } catch {
    return false;
  }
}
