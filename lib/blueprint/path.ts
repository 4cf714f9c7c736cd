/** The path language of flows: `$`, `$.a.b`, `$["x.y"].c`; object keys only, no list indices. */

export type ParsedPath =
  | { readonly ok: true; readonly keys: string[] }
  | { readonly ok: false; readonly message: string };

/** The keys that a path text names; the empty list for `$`, the whole context. */
export function parsePath(text: string): ParsedPath {
  return text.startsWith('$') ? parseKeys(text, 1) : bad(text, 'it must start with $');
}

/** The keys of a `let` target, whose root may be spelled `ctx` as well as `$`. */
export function parseLetPath(text: string): ParsedPath {
  if (text.startsWith('$')) return parseKeys(text, 1);
  return text.startsWith('ctx') ? parseKeys(text, 3) : bad(text, 'it must start with $ or ctx');
}

/** The shortest text that `parsePath` reads back as these keys. */
export function formatPath(keys: readonly string[]): string {
  return `$${keys.map((key) => (/[.[]/.test(key) ? `["${key}"]` : `.${key}`)).join('')}`;
}

function parseKeys(text: string, start: number): ParsedPath {
  const keys: string[] = [];
  for (let at = start; at < text.length; ) {
    const dotted = text[at] === '.';
    if (dotted) at++;
    if (text[at] === '[') {
      const close = text[at + 1] === '"' ? text.indexOf('"', at + 2) : -1;
      if (close === -1 || text[close + 1] !== ']') {
        return bad(text, `position ${at} needs a double-quoted key in brackets, such as ["a.b"]`);
      }
      if (close === at + 2) return bad(text, `the key at position ${at} is empty`);
      keys.push(text.slice(at + 2, close));
      at = close + 2;
    } else if (dotted) {
      const end = endOfKey(text, at);
      if (end === at) return bad(text, `the key at position ${at} is empty`);
      keys.push(text.slice(at, end));
      at = end;
    } else return bad(text, `position ${at} needs . or [ or the end of the path`);
  }
  return { ok: true, keys };
}

function endOfKey(text: string, start: number): number {
  let end = start;
  while (end < text.length && text[end] !== '.' && text[end] !== '[') end++;
  return end;
}

function bad(text: string, why: string): ParsedPath {
  return { ok: false, message: `${JSON.stringify(text)} is not a path: ${why}; write $.a.b or $["a.b"].c` };
}
