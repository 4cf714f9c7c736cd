/** Everything that can be said about a document before it runs. */
import { type Compiled, compile } from './blueprint/compile.ts';
import { failWith, type Issue } from './errors.ts';
import { digest, isObject, type JsonValue } from './json.ts';
import { checkSystemPrompts, hasTemplateSyntax } from './worker/system-prompt.ts';

export interface Validated {
  readonly ok: boolean;
  /** errors and warnings, in document order of the checks */
  readonly issues: readonly Issue[];
  /** null when not ok */
  readonly compiled: Compiled | null;
}

/** Checks the document: schema, references, placeholders, pointers, and the syntax of every system prompt. */
export async function validate(document: JsonValue): Promise<Validated> {
  const answer = compile(document);
  if (!answer.ok) return { ok: false, issues: answer.issues, compiled: null };
  const broken = await checkPrompts(answer.compiled);
  if (broken.length > 0) return { ok: false, issues: [...broken, ...answer.warnings], compiled: null };
  return { ok: true, issues: answer.warnings, compiled: answer.compiled };
}

async function checkPrompts(compiled: Compiled): Promise<Issue[]> {
  const written = Object.values(compiled.agents).flatMap(({ name, worker }) =>
    worker.path === 'template' && worker.system_prompt !== null && hasTemplateSyntax(worker.system_prompt)
      ? [{ name, prompt: worker.system_prompt, path: worker.system_prompt_pointer ?? '' }]
      : [],
  );
  if (written.length === 0) return [];
  const messages = await checkSystemPrompts(written.map(({ prompt }) => prompt));
  return written.flatMap(({ name, path }, i) => {
    const message = messages[i];
    if (message == null) return [];
    return [
      {
        code: 'prompt_syntax',
        path,
        message: `system_prompt of agent '${name}': ${message}`,
        severity: 'error' as const,
      },
    ];
  });
}

export interface Blueprint {
  readonly digest: string;
  readonly document: JsonValue;
  readonly compiled: Compiled;
  readonly warnings: readonly Issue[];
}

const checked = new WeakMap<object, Promise<Blueprint>>();

/**
 * The digest and the compiled form of a document; a document object is looked at once, however often it is sent.
 * Throws InvalidBlueprint with all issues.
 */
export function checkedBlueprint(document: JsonValue): Promise<Blueprint> {
  if (!isObject(document)) return check(document);
  const known = checked.get(document) ?? check(document);
  checked.set(document, known);
  return known;
}

async function check(document: JsonValue): Promise<Blueprint> {
  const { compiled, issues } = await validate(document);
  if (!compiled)
    failWith(
      'InvalidBlueprint',
      issues.filter(({ severity }) => severity === 'error'),
    );
  return { digest: digest(document), document, compiled, warnings: issues };
}
