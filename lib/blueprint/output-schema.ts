/** How a program's output becomes a result: the part of the schema below `output`, and conditions on it. */
import * as z from 'zod/mini';
import { isObject, type JsonValue } from '../json.ts';
import { ExitCode, Json } from '../task.ts';
import { mapOf } from './map-schema.ts';

/** JSON Pointers to what must stand there. */
const Where = mapOf<JsonValue>(
  'a string, a number, true, false or null',
  (value) => !Array.isArray(value) && !isObject(value),
  {
    values: { type: ['string', 'number', 'boolean', 'null'] },
    names: '^/',
  },
);

export const Take = z.enum(['last', 'first', 'only', 'all']);

/** Which of the records that a program printed. */
export const Selection = z.strictObject({
  where: Where,
  take: z.nullish(Take),
  after_last: z.nullish(Where),
  ptr: z.nullish(z.string()),
  join: z.nullish(z.string()),
});
export type Selection = z.infer<typeof Selection>;

const NamedSelections = z
  .record(z.string(), Selection)
  .check(
    z.refine(
      (named) => Object.keys(named).length > 0,
      'nothing is selected; give {"where": …} or named selections, or leave select out',
    ),
  );

NamedSelections.register(z.globalRegistry, { minProperties: 1 });

/** Exactly one test; `ptr` goes with `equals`, `not_equals`, `in`, `matches` and `empty`. */
export interface Condition {
  readonly ptr?: string | undefined;
  readonly equals?: JsonValue | undefined;
  readonly not_equals?: JsonValue | undefined;
  readonly in?: readonly JsonValue[] | undefined;
  readonly matches?: string | undefined;
  readonly empty?: boolean | undefined;
  readonly exit_codes?: readonly number[] | undefined;
  readonly all?: readonly Condition[] | undefined;
  readonly any?: readonly Condition[] | undefined;
  readonly not?: Condition | undefined;
}
export const Condition: z.ZodMiniType<Condition> = z.strictObject({
  ptr: z.optional(z.string()),
  equals: z.optional(Json),
  not_equals: z.optional(Json),
  in: z.optional(z.array(Json)),
  matches: z.optional(z.string()),
  empty: z.optional(z.boolean()),
  exit_codes: z.optional(z.array(ExitCode)),
  get all() {
    return z.optional(z.array(Condition));
  },
  get any() {
    return z.optional(z.array(Condition));
  },
  get not() {
    return z.optional(Condition);
  },
});
export const POINTER_TESTS = ['equals', 'not_equals', 'in', 'matches', 'empty'] as const;
export const OTHER_TESTS = ['exit_codes', 'all', 'any', 'not'] as const;
Condition.register(z.globalRegistry, {
  title: 'Condition',
  oneOf: [...POINTER_TESTS.map((test) => ['ptr', test]), ...OTHER_TESTS.map((test) => [test])].map(
    (required) => ({
      type: 'object',
      required,
      properties: Object.fromEntries(required.map((name) => [name, {}])),
    }),
  ),
});

export const SubprocessOutput = z.strictObject({
  format: z.nullish(z.enum(['json', 'jsonl'])),
  select: z.nullish(z.union([Selection, NamedSelections])),
  result_ptr: z.nullish(z.string()),
  ok_from: z.nullish(z.union([z.string(), Condition])),
  error: z.nullish(z.strictObject({ message_ptr: z.nullish(z.string()), class_ptr: z.nullish(z.string()) })),
  stats: z.nullish(
    z.strictObject({
      usage_ptr: z.nullish(z.string()),
      model_ptr: z.nullish(z.string()),
      num_turns_ptr: z.nullish(z.string()),
      cost_ptr: z.nullish(z.string()),
    }),
  ),
});
export type SubprocessOutput = z.infer<typeof SubprocessOutput>;

/** The selections by name, in the order of the document; the only one of a template that names none is `''`. */
export function selectionsOf({ format, select }: SubprocessOutput): Map<string, Selection> {
  if (select == null) return new Map(format === 'jsonl' ? [['', { where: {}, take: 'all' }]] : []);
  return new Map(isSelection(select) ? [['', select]] : Object.entries(select));
}

/** By its shape: a name may be that of a field. */
function isSelection(select: NonNullable<SubprocessOutput['select']>): select is Selection {
  return Selection.safeParse(select).success;
}

/** The conditions of which a condition is made, itself included. */
export function* partsOf(condition: Condition): Generator<Condition> {
  yield condition;
  const parts = [...(condition.all ?? []), ...(condition.any ?? [])];
  for (const part of condition.not ? [...parts, condition.not] : parts) yield* partsOf(part);
}
