/** The spec-based path: an agent without a runner names its program in `spec`. */
import * as z from 'zod/mini';
import type { Issue } from '../errors.ts';
import { isObject, type JsonValue, toPointer } from '../json.ts';
import { nulProblems } from './check-text.ts';
import { error } from './issues.ts';
import { quote } from './nearest.ts';
import { StreamMode } from './schema.ts';
import { STOP_AT_FIRST, translateIssues } from './schema-issues.ts';

/** Closed, where the reference drops or reinterprets what it does not expect. */
const Spec = z.strictObject({
  program: z.string().check(z.minLength(1, 'expected the name of a program')),
  args: z.optional(z.array(z.string())),
  use_stdin: z.optional(z.boolean()),
  stream_mode: z.nullish(StreamMode),
});

/** A program that gets the directive on stdin, or as its last argument when `use_stdin` is false. */
export interface SpecWorker {
  readonly path: 'spec';
  /** pointer of the spec */
  readonly pointer: string;
  readonly program: string;
  readonly args: readonly string[];
  readonly use_stdin: boolean;
  readonly stream_mode: StreamMode | null;
}

/** The issues of a spec, found at `pointer`. */
export function* checkSpec(spec: JsonValue | undefined, pointer: string, agent: string): Generator<Issue> {
  const subject = `agent ${quote(agent)}`;
  if (spec == null) {
    const message = `${subject} has neither a runner nor a spec with a program; give it a runner that names a template, or a spec such as {"program":"cat","args":[]}`;
    yield error('missing_field', pointer, message);
    return;
  }
  const parsed = Spec.safeParse(spec, isLong(spec) ? STOP_AT_FIRST : undefined);
  if (!parsed.success) {
    for (const { issue, path } of translateIssues(Spec, parsed.error.issues, spec)) {
      if (!issue) continue;
      const hint = issue.path === '/program' ? '; an agent without a runner needs it' : '';
      yield {
        ...issue,
        path: pointer + issue.path,
        message: `${subject} ${place(path)}: ${issue.message}${hint}`,
      };
    }
    return;
  }
  const { program, args = [] } = parsed.data;
  for (const [i, text] of [program, ...args].entries()) {
    const path = i === 0 ? ['program'] : ['args', i - 1];
    for (const { code, message } of nulProblems(text)) {
      yield error(code, pointer + toPointer(path), `${subject} ${place(path)}: ${message}`);
    }
  }
}

function isLong(spec: JsonValue): boolean {
  return isObject(spec) && Array.isArray(spec.args) && spec.args.length > 10_000;
}

function place(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => text + (typeof key === 'number' ? `[${key}]` : `.${String(key)}`),
    'spec',
  );
}

/** The worker of a spec that `checkSpec` finds nothing wrong with. */
export function specWorker(spec: JsonValue | undefined, pointer: string): SpecWorker {
  const { program, args = [], use_stdin = true, stream_mode = null } = Spec.parse(spec);
  return { path: 'spec', pointer, program, args, use_stdin, stream_mode };
}
