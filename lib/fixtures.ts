/** Tests of a Blueprint's templates without their programs: a request, what the program printed, what it must come to. */
import { writeFile } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import * as z from 'zod/mini';
import type { Worker } from './blueprint/compile.ts';
import { previewCommand } from './child.ts';
import { StepspawnError } from './errors.ts';
import {
  isObject,
  type JsonObject,
  type JsonValue,
  jsonEquals,
  member,
  parseJson,
  toPointer,
} from './json.ts';
import { findAgent } from './prepare.ts';
import { nextAttempt } from './retry.ts';
import { AnyObject, Attempt, ExitCode, Json, type Task, TaskId } from './task.ts';
import { checkedBlueprint } from './validate.ts';
import { type Collected, collectOutput } from './worker/collect.ts';
import { bytesOf } from './worker/file-range.ts';
import { createMask } from './worker/mask.ts';
import type { Exit } from './worker/spawn.ts';

/** A request as far as templates see it. */
const Request = z.strictObject({
  in: z.optional(Json),
  context: z.optional(AnyObject),
  task_id: z.optional(TaskId),
  attempt: z.optional(Attempt),
});

/** What the program printed, as text or in a file beside the fixtures, and how it ended. */
const Recorded = z
  .strictObject({
    stdout: z.optional(z.string()),
    stdout_file: z.optional(z.string()),
    stderr: z.optional(z.string()),
    stderr_file: z.optional(z.string()),
    exit_code: z.optional(ExitCode),
    signal: z.optional(
      z
        .string()
        .check(
          z.refine(
            (name) => Object.hasOwn(constants.signals, name),
            'expected the name of a signal, such as SIGTERM',
          ),
        ),
    ),
    ended_for: z.optional(z.enum(['timed_out', 'cancelled', 'output_limit', 'silent'])),
  })
  .check(
    z.refine(
      ({ stdout, stdout_file }) => stdout === undefined || stdout_file === undefined,
      'stdout and stdout_file are given; keep one',
    ),
    z.refine(
      ({ stderr, stderr_file }) => stderr === undefined || stderr_file === undefined,
      'stderr and stderr_file are given; keep one',
    ),
  );
type Recorded = z.infer<typeof Recorded>;

const NotEmpty = <T extends object>() =>
  z.refine<T>(
    (expected) => Object.keys(expected).length > 0,
    'nothing is expected; name at least one member',
  );

const ExpectedCommand = z
  .strictObject({
    argv: z.optional(Json),
    stdin: z.optional(Json),
    env: z.optional(AnyObject),
    cwd: z.optional(Json),
    files: z.optional(AnyObject),
  })
  .check(NotEmpty());

const ExpectedResult = z
  .strictObject({
    ok: z.optional(z.boolean()),
    reason: z.optional(z.nullable(z.string())),
    message: z.optional(z.nullable(z.string())),
    value: z.optional(Json),
    stats: z.optional(AnyObject),
    warnings: z.optional(Json),
    reported_error: z.optional(z.nullable(AnyObject)),
    retry: z.optional(z.boolean()),
  })
  .check(NotEmpty());

/** Members of `command` and `result` that are not named may be anything; `result.value` is compared as a whole. */
export const Fixture = z
  .strictObject({
    name: z.string(),
    agent: z.optional(z.string()),
    request: z.optional(Request),
    command: z.optional(ExpectedCommand),
    error: z.optional(z.string()),
    recorded: z.optional(Recorded),
    result: z.optional(ExpectedResult),
  })
  .check(
    z.refine(
      ({ command, error, result }) => command !== undefined || error !== undefined || result !== undefined,
      'a test without command, error or result cannot fail; say what is expected',
    ),
    z.refine(
      ({ recorded, result }) => recorded === undefined || result !== undefined,
      'what was recorded is not looked at without a result; say what it must come to',
    ),
  );
export type Fixture = z.infer<typeof Fixture>;
export const Fixtures = z.strictObject({
  tests: z.array(Fixture).check(z.refine((tests) => tests.length > 0, 'expected at least one test')),
});

/** Something that is not as a fixture says. */
export interface Difference {
  /** JSON Pointer into the fixture */
  readonly path: string;
  readonly expected: JsonValue;
  /** null where nothing is there */
  readonly actual: JsonValue;
}

/** Where a fixture's files are: an empty folder to write to, and how to read what it names. */
export interface FixturePlace {
  readonly folder: string;
  readonly read: (name: string) => Promise<Uint8Array>;
}

/**
 * What of a fixture does not hold; none = it passes. `agent` may be left out where the document has one. Throws
 * InvalidBlueprint, and InvalidTask for an agent that is not there.
 */
export async function runFixture(
  document: JsonValue,
  fixture: Fixture,
  place: FixturePlace,
): Promise<readonly Difference[]> {
  const blueprint = await checkedBlueprint(document);
  const names = Object.keys(blueprint.compiled.agents);
  const { name, worker } = findAgent(blueprint, fixture.agent ?? (names.length === 1 ? names[0]! : ''));
  const command = await rendered({
    task_id: 'T-1',
    attempt: 1,
    ...fixture.request,
    agent: name,
    blueprint: document,
  });
  const { code = null } = command;
  if (code !== (fixture.error ?? null))
    return [{ path: '/error', expected: fixture.error ?? null, actual: command.message ?? code }];
  const outcome = fixture.result && (await outcomeOf(worker, fixture.recorded ?? {}, place));
  const rule = worker.path === 'template' ? worker.retry : null;
  const asked = outcome?.retry === true && rule !== null;
  const result = {
    ...outcome,
    retry: asked && nextAttempt(rule, { attempt: fixture.request?.attempt ?? 1 }) !== null,
  };
  return [
    ...differences(fixture.command ?? {}, command, ['command']),
    ...differences(fixture.result ?? {}, result, ['result']),
  ];
}

/** The Command, or the error that rendering throws. */
async function rendered(task: Task): Promise<JsonObject> {
  try {
    return { ...(await previewCommand(task)) } as unknown as JsonObject;
  } catch (error) {
    if (error instanceof StepspawnError) return { code: error.code, message: error.message };
    throw error;
  }
}

async function outcomeOf(
  worker: Worker,
  recorded: Recorded,
  { folder, read }: FixturePlace,
): Promise<JsonObject> {
  const file = (name: string): string => join(folder, name);
  const put = async (name: string, text: string | undefined, source: string | undefined) => {
    const bytes = source === undefined ? Buffer.from(text ?? '') : await read(source);
    await writeFile(file(name), bytes);
    return { path: file(name), name: file(name), size_bytes: bytes.length };
  };
  const { stdout, stdout_file, stderr, stderr_file, exit_code, signal, ended_for } = recorded;
  const exit: Exit = {
    status: { code: signal === undefined ? (exit_code ?? 0) : null, signal: signal ?? null },
    cause: ended_for ?? null,
    stdout: await put('stdout', stdout, stdout_file),
    stderr: await put('stderr', stderr, stderr_file),
    warnings: [],
  };
  const last: (() => Promise<unknown>)[] = [];
  const scratch = { file, atEnd: (work: () => Promise<unknown>): void => void last.push(work) };
  try {
    return await readOutcome(await collectOutput({ worker, scratch, mask: createMask([]) }).settle(exit));
  } finally {
    for (const work of last) await work();
  }
}

async function readOutcome({ outcome }: Collected): Promise<JsonObject> {
  if ('value' in outcome) return outcome as unknown as JsonObject;
  const { content, ...rest } = outcome;
  return { ...rest, value: parseJson((await bytesOf(content())).toString()) } as unknown as JsonObject;
}

function differences(expected: JsonValue, actual: JsonValue, path: readonly string[]): Difference[] {
  const at = path.join('/');
  if (isObject(expected) && isObject(actual) && at !== 'result/value')
    return Object.keys(expected).flatMap((key) =>
      differences(expected[key]!, member(actual, key) ?? null, [...path, key]),
    );
  const isIn = at === 'result/message' && typeof expected === 'string' && typeof actual === 'string';
  const holds = isIn ? actual.includes(expected) : jsonEquals(expected, actual);
  return holds ? [] : [{ path: toPointer(path), expected, actual }];
}
