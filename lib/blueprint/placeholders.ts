/** The eight placeholders and `{lbrace}`, a literal brace: one tokenizer, which the check and the renderer share. */
import { nearest } from './nearest.ts';

export const PLACEHOLDERS = [
  'system',
  'system_file',
  'prompt',
  'model',
  'tools_csv',
  'work_dir',
  'task_id',
  'attempt',
] as const;
export type Placeholder = (typeof PLACEHOLDERS)[number];

const KNOWN: ReadonlySet<string> = new Set(PLACEHOLDERS);
const CLOSED_SET = PLACEHOLDERS.map((name) => `{${name}}`).join(' ');

/** Stands for `{`, so that what follows is text: `${lbrace}name}` is `${name}`. */
const LITERAL_BRACE = 'lbrace';

function isPlaceholder(name: string): name is Placeholder {
  return KNOWN.has(name);
}

/** A `{name}` in a template, name of `a-z` and `_` only; any other brace is literal text. */
interface Token {
  readonly name: string;
  /** offset of the opening brace, in UTF-16 units */
  readonly start: number;
  /** offset after the closing brace */
  readonly end: number;
}

/** The first token at or after an offset. Walking a whole template is linear: no letter is looked at twice. */
function nextToken(template: string, from: number): Token | undefined {
  for (let start = template.indexOf('{', from); start !== -1; ) {
    let end = start + 1;
    while (isNameLetter(template.charCodeAt(end))) end++;
    if (end > start + 1 && template.charCodeAt(end) === 0x7d) {
      return { name: template.slice(start + 1, end), start, end: end + 1 };
    }
    start = template.indexOf('{', end);
  }
  return undefined;
}

function isNameLetter(code: number): boolean {
  return (code >= 0x61 && code <= 0x7a) || code === 0x5f;
}

/** A token that is none of the eight and no literal brace. */
export interface UnknownPlaceholder {
  readonly token: string;
  readonly offset: number;
  /** which token, where, and what to write instead */
  readonly message: string;
}

/** Whether a template names nothing but the eight. */
export function isValidTemplate(template: string): boolean {
  for (let token = nextToken(template, 0); token; token = nextToken(template, token.end)) {
    if (!isPlaceholder(token.name) && token.name !== LITERAL_BRACE) return false;
  }
  return true;
}

/** The unknown tokens of a template from left to right; none = the template is valid. */
export function* unknownPlaceholders(template: string): Generator<UnknownPlaceholder> {
  for (let token = nextToken(template, 0); token; token = nextToken(template, token.end)) {
    const { name, start } = token;
    if (isPlaceholder(name) || name === LITERAL_BRACE) continue;
    const shown = name.length > 40 ? `${name.slice(0, 40)}…` : name;
    const known = nearest(name, PLACEHOLDERS);
    const hint = known === undefined ? '' : ` (did you mean {${known}}?)`;
    const literal = template[start - 1] === '$' || known === undefined ? literalAdvice(template, token) : '';
    const message = `{${shown}} at offset ${start} is not a placeholder${hint}; use one of ${CLOSED_SET}${literal}`;
    yield { token: `{${name}}`, offset: start, message };
  }
}

/** How to write the token as text, with the sign before it by which one recognises it. */
function literalAdvice(template: string, { name, start }: Token): string {
  const shown = name.length > 40 ? `${name.slice(0, 40)}…` : name;
  const sign = template[start - 1] ?? '';
  const before = /[$%]/.test(sign) ? sign : '';
  const shell = before === '$' ? ` (a shell also takes $${shown})` : '';
  return `; as literal text write ${before}{lbrace}${shown}} for ${before}{${shown}}${shell}`;
}

/** Whether the template names the placeholder. */
export function usesPlaceholder(template: string, name: Placeholder): boolean {
  return template.includes(`{${name}}`);
}

export interface RenderedText {
  readonly text: string;
  /** used placeholders without a value, each once, in order of appearance */
  readonly missing: Placeholder[];
}

/**
 * Replaces every placeholder by its value in one pass, so that a value is never scanned again; unknown tokens
 * stay as they are, `{lbrace}` becomes `{`. `system` and `tools_csv` may be absent and are then empty.
 */
export function renderText(
  template: string,
  values: Readonly<Partial<Record<Placeholder, string>>>,
): RenderedText {
  const missing: Placeholder[] = [];
  let text = '';
  let copied = 0;
  for (let token = nextToken(template, 0); token; token = nextToken(template, token.end)) {
    const { name, start, end } = token;
    if (name === LITERAL_BRACE) {
      text += `${template.slice(copied, start)}{`;
      copied = end;
      continue;
    }
    if (!isPlaceholder(name)) continue;
    const value = values[name];
    if (value === undefined && !MAY_BE_ABSENT.has(name) && !missing.includes(name)) missing.push(name);
    text += template.slice(copied, start) + (value ?? '');
    copied = end;
  }
  return { text: copied === 0 ? template : text + template.slice(copied), missing };
}
const MAY_BE_ABSENT: ReadonlySet<Placeholder> = new Set(['system', 'tools_csv']);

const REMEDIES: Partial<Record<Placeholder, string>> = {
  model: 'set profile.model of the agent or overrides.model of its runner',
  work_dir:
    'it needs work_dir or project_root in the context: give it with the request, in meta.ctx of the agent or in default_agent_ctx, and do not hide it by a context policy',
  system_file: 'set profile.system_prompt of the agent',
};

/** What a placeholder without a value lacks and where to set it. */
export function missingMessage(name: Placeholder): string {
  return `{${name}} has no source: ${REMEDIES[name] ?? 'the request does not give it'}`;
}
