/** The fold: text that is itself a JSON container becomes that container. */
import { JsonError, type JsonValue, parseJson } from '../json.ts';

/**
 * The value that a flow sees for a step's value: a string that holds one JSON object or list, bare or in a code
 * fence, is read; everything else stays as it is.
 */
export function fold(value: JsonValue): JsonValue {
  if (typeof value !== 'string') return value;
  return container(value) ?? fenced(value) ?? value;
}

function container(text: string): JsonValue | undefined {
  const body = trimLeft(text);
  if (body[0] !== '{' && body[0] !== '[') return undefined;
  try {
    return parseJson(body);
  } catch (error) {
    if (error instanceof JsonError) return undefined;
    throw error;
  }
}

function fenced(text: string): JsonValue | undefined {
  const body = trimLeft(text).trimEnd();
  const open = /^(`{3,})[^\n`]*\n/.exec(body);
  const fence = open?.[1];
  if (!open || !fence || !body.endsWith(fence) || body.length < open[0].length + fence.length)
    return undefined;
  return container(body.slice(open[0].length, -fence.length));
}

/** Unicode white space, which unlike `trimStart` does not take a byte-order mark. */
function trimLeft(text: string): string {
  return text.replace(/^\p{White_Space}+/u, '');
}
