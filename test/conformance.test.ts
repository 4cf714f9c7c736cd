/** Every case of the document language, one test each; the case files say what is right. */
import { describe, expect, test } from 'vitest';
import { compile } from '../lib/blueprint/compile.ts';
import { SubprocessOutput } from '../lib/blueprint/output-schema.ts';
import { formatPath, parsePath } from '../lib/blueprint/path.ts';
import { missingMessage, renderText, unknownPlaceholders } from '../lib/blueprint/placeholders.ts';
import { resolveRunner } from '../lib/blueprint/runner.ts';
import * as schemas from '../lib/blueprint/schema.ts';
import { checkSchema } from '../lib/blueprint/schema-issues.ts';
import type { Schema } from '../lib/blueprint/schema-walk.ts';
import { type Issue, StepspawnError } from '../lib/errors.ts';
import { fold } from '../lib/flow/fold.ts';
import { startFlow } from '../lib/flow/run.ts';
import { promptText, stepInput } from '../lib/flow/step-input.ts';
import type { StepResult } from '../lib/flow/step-result.ts';
import { isObject, type JsonObject, type JsonValue } from '../lib/json.ts';
import { runFlow } from '../lib/run.ts';
import type { ExitStatus } from '../lib/task.ts';
import { validate } from '../lib/validate.ts';
import { normalize } from '../lib/worker/normalize.ts';
import { createStreamReader, noFinalEvent, streamOutcome } from '../lib/worker/stream.ts';
import { type FinalEvent, parseEvent } from '../lib/worker/stream-event.ts';
import { renderSystemPrompt } from '../lib/worker/system-prompt.ts';
import { bytesOf, expectContains, expectMatch, readCases } from './support/cases.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';

/** What our code makes of a case's input: the keys that `expect` may name, and all that the error says. */
type Actual = { readonly [key: string]: unknown; readonly ok?: boolean; readonly error?: string };

const folder = temporaryFolder();
const EMPTY_FLOW = { kind: 'seq', children: [] };

const AREAS: Record<string, (input: JsonObject) => Actual | Promise<Actual>> = {
  schema: ({ type, doc }) => {
    if (type === 'Path') {
      const parsed = parsePath(String(doc));
      return parsed.ok
        ? { ok: true, normalized: formatPath(parsed.keys) }
        : { ok: false, error: parsed.message };
    }
    const issues =
      type === 'Blueprint' ? issuesOf(compile(doc!)) : checkSchema(schemaNamed(String(type)), doc!);
    return { ...verdict(issues), normalized: isObject(doc) ? withoutNulls(doc) : doc };
  },
  runner: ({ blueprint, agent }) => {
    const document = { id: 't', flow: EMPTY_FLOW, ...(blueprint as JsonObject) };
    const resolved = resolveRunner(schemas.Blueprint.parse(document), String(agent));
    return resolved.ok ? { ...resolved } : verdict(resolved.issues);
  },
  compile: async ({ blueprint }) => {
    const { issues, compiled } = await validate({ id: 't', flow: EMPTY_FLOW, ...(blueprint as JsonObject) });
    const agents = Object.entries(compiled?.agents ?? {});
    return {
      ...verdict(issues),
      spawners: Object.fromEntries(agents.map(([name, { worker }]) => [name, worker])),
    };
  },
  validate: ({ template }) => {
    const unknown = [...unknownPlaceholders(String(template))];
    return { ok: unknown.length === 0, error: unknown.map(({ message }) => message).join('\n') };
  },
  render: ({ template, vars }) => {
    const { text, missing } = renderText(String(template), vars as Record<string, string>);
    return { ok: missing.length === 0, text, error: missing.map(missingMessage).join('\n') };
  },
  prompt: ({ in: value, metas }) =>
    caught(() => {
      const { in: directive, step_ctx } = stepInput(
        value!,
        new Map(Object.entries((metas ?? {}) as JsonObject)),
      );
      return { ok: true, prompt: promptText(directive), step_ctx };
    }),
  system: async ({ system_prompt, in: directive }) => {
    const answer = await renderSystemPrompt(String(system_prompt), directive!);
    return answer.ok ? { ok: true, system: answer.text } : { ok: false, error: answer.message };
  },
  normalize: (input) => {
    const stderr = String(input.stderr ?? '');
    const output = input.output as SubprocessOutput | null;
    const { exit, model } = input;
    const outcome = normalize({
      stdout: bytesOf(input, 'stdout'),
      stderr,
      exit: exitOf(exit, input.signal),
      output,
      model: typeof model === 'string' ? model : null,
      cause: null,
    });
    return { ...outcome };
  },
  stream: (input) => {
    const events: string[] = [];
    const finals: FinalEvent[] = [];
    const reader = createStreamReader(input.mode as schemas.StreamMode, (event) => {
      events.push(event.type);
      if (event.type === 'final') finals.push(event);
    });
    for (const byte of bytesOf(input, 'stdout')) reader.push(Uint8Array.of(byte));
    const report = reader.end();
    const exit = exitOf(input.exit, undefined);
    const lastFinal = finals.at(-1) ?? null;
    const outcome = streamOutcome({ lastFinal, exit, cause: null, model: null, ...report });
    if (lastFinal === null) events.push(noFinalEvent(exit).type);
    return { ok: true, events, outcome: outcome.ok ? 'pass' : 'blocked', value: fold(outcome.value) };
  },
  event: ({ json }) => {
    const parsed = parseEvent(String(json));
    return parsed.ok ? { ok: true, normalized: parsed.event } : { ok: false, error: parsed.message };
  },
  fold: ({ final_value }) => ({ flow_value: fold(final_value!) }),
  flow: (input) => scriptedFlow(input),
  run: async ({ blueprint, task_input, init_ctx }) => {
    const document = { id: 't', ...(blueprint as JsonObject) };
    try {
      const ended = await runFlow(
        { run_id: 'R-case', blueprint: document, ctx: init_ctx, context: (task_input ?? {}) as JsonObject },
        await realPorts(folder),
      );
      return { ok: ended.status === 'done', ctx: ended.ctx, error: ended.error?.message };
    } catch (error) {
      return { ok: false, error: allText(error) };
    }
  },
};

for (const [area, run] of Object.entries(AREAS)) {
  const cases = readCases('conformance.jsonl').filter((candidate) => candidate.area === area);
  if (cases.length === 0) continue;
  describe(area, () => {
    test.each(cases.map((found) => [`${found.id}: ${found.title}`, found] as const))(
      '%s',
      async (_title, found) => {
        const expected = (found.expect_product ?? found.expect) as JsonObject;
        const actual = await run(found.input as JsonObject);
        for (const [key, value] of Object.entries(expected)) {
          if (key === 'error_contains') expectContains(actual.error ?? '', value);
          else if (key === 'spawners') expectSpawners(actual.spawners as JsonObject, value as JsonObject);
          else expectMatch(actual[key] as JsonValue, value);
        }
      },
    );
  });
}

/** `expect` lists only the keys to compare of each baked agent. */
function expectSpawners(actual: JsonObject, expected: JsonObject): void {
  for (const [agent, keys] of Object.entries(expected)) {
    for (const [key, value] of Object.entries(keys as JsonObject))
      expectMatch((actual[agent] as JsonObject)[key], value);
  }
}

/** Drives a flow whose steps answer as the case scripts them, the last answer of a ref again and again. */
function scriptedFlow({ flow, ctx, steps = {}, metas = [] }: JsonObject): Actual {
  const document = { id: 't', flow: flow!, metas, strategy: { strict_refs: false } };
  const compiled = compile(document);
  if (!compiled.ok) return { ...verdict(compiled.issues), calls: [] };
  const run = startFlow({
    flow: compiled.compiled.flow,
    ctx: ctx!,
    metas: new Map(Object.entries(compiled.compiled.metas)),
  });
  const calls: JsonObject[] = [];
  let time = 0;
  for (let pending = run.pending(); pending.length > 0; pending = run.pending()) {
    for (const step of pending) {
      const script = ((steps as JsonObject)[step.ref] ?? []) as JsonObject[];
      const earlier = calls.filter(({ ref }) => ref === step.ref).length;
      calls.push({ ref: step.ref, in: step.in });
      run.settle(step.position, scripted(script[Math.min(earlier, script.length - 1)]!, String(time++)));
    }
  }
  const { status } = run;
  if (status.status === 'done') return { ok: true, ctx: status.ctx, calls };
  return { ok: false, error: status.status === 'failed' ? status.error.message : 'still running', calls };
}

function scripted(answer: JsonObject, completed_at: string): StepResult {
  if ('pass' in answer) return { status: 'passed', value: answer.pass!, completed_at };
  if ('blocked' in answer) return { status: 'blocked', value: answer.blocked!, completed_at };
  return { status: 'failed', message: String(answer.error), completed_at };
}

function exitOf(code: JsonValue | undefined, signal: JsonValue | undefined): ExitStatus {
  return signal === undefined ? { code: Number(code), signal: null } : { code: null, signal: 'SIGKILL' };
}

function schemaNamed(name: string): Schema {
  const found: Record<string, unknown> = { ...schemas, SubprocessOutput };
  expect(found[name], `a schema named ${name}`).toBeDefined();
  return found[name] as Schema;
}

function withoutNulls(document: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(document).filter(([, value]) => value !== null));
}

function issuesOf(answer: ReturnType<typeof compile>): readonly Issue[] {
  return answer.ok ? answer.warnings : answer.issues;
}

function verdict(issues: readonly Issue[]): { ok: boolean; error: string } {
  const errors = issues.filter(({ severity }) => severity === 'error');
  return {
    ok: errors.length === 0,
    error: errors.map(({ path, message }) => `${path}: ${message}`).join('\n'),
  };
}

function caught(run: () => Actual): Actual {
  try {
    return run();
  } catch (error) {
    return { ok: false, error: allText(error) };
  }
}

function allText(error: unknown): string {
  const issues = error instanceof StepspawnError ? error.issues : [];
  return [String(error), ...issues.map(({ path, message }) => `${path}: ${message}`)].join('\n');
}
