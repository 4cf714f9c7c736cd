/** How a program's output becomes a result: the part of the schema below `output`, and conditions on it. */
import * as z from 'zod';
import type { JsonValue } from '../json.ts';
import { Json } from '../task.ts';
import { mapOf } from './map-schema.ts';

/** JSON Pointers to what must stand there. */
const Where = mapOf<JsonValue>('a string, a number, true, false or null', (value) => !isContainer(value), {
  type: ['string', 'number', 'boolean', 'null'],
});

function isContainer(value: JsonValue): boolean {
  return Array.isArray(value) || (typeof value === 'object' && value !== null && !JSON.isRawJSON(value));
}

export const Take = z.enum(['last', 'first', 'only', 'all']);

/** Which of the records that a program printed. */
export const Selection = z.strictObject({
  where: Where,
  take: Take.nullish(),
  after_last: Where.nullish(),
  ptr: z.string().nullish(),
  join: z.string().nullish(),
});
export type Selection = z.infer<typeof Selection>;

const NamedSelections = z
  .record(z.string(), Selection)
  .refine(
    (named) => Object.keys(named).length > 0,
    'nothing is selected; give {"where": …} or named selections, or leave select out',
  );

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
export const Condition: z.ZodType<Condition> = z.strictObject({
  ptr: z.string().optional(),
  equals: Json.optional(),
  not_equals: Json.optional(),
  in: z.array(Json).optional(),
  matches: z.string().optional(),
  empty: z.boolean().optional(),
  exit_codes: z.array(z.int().min(0).max(255)).optional(),
  get all() {
    return z.array(Condition).optional();
  },
  get any() {
    return z.array(Condition).optional();
  },
  get not() {
    return Condition.optional();
  },
});

export const SubprocessOutput = z.strictObject({
  format: z.enum(['json', 'jsonl']).nullish(),
  select: z.union([Selection, NamedSelections]).nullish(),
  result_ptr: z.string().nullish(),
  ok_from: z.union([z.string(), Condition]).nullish(),
  error: z.strictObject({ message_ptr: z.string().nullish(), class_ptr: z.string().nullish() }).nullish(),
  stats: z
    .strictObject({
      usage_ptr: z.string().nullish(),
      model_ptr: z.string().nullish(),
      num_turns_ptr: z.string().nullish(),
      cost_ptr: z.string().nullish(),
    })
    .nullish(),
});
export type SubprocessOutput = z.infer<typeof SubprocessOutput>;

/** The selections by name, in the order of the document; the only one of a template that names none is `''`. */
export function selectionsOf({ format, select }: SubprocessOutput): Map<string, Selection> {
  if (select == null) return new Map(format === 'jsonl' ? [['', { where: {}, take: 'all' }]] : []);
  return new Map(isSelection(select) ? [['', select]] : Object.entries(select));
}

function isSelection(select: NonNullable<SubprocessOutput['select']>): select is Selection {
  return Object.keys(Selection.shape).some((field) => Object.hasOwn(select, field));
}

/** The conditions of which a condition is made, itself included. */
export function* partsOf(condition: Condition): Generator<Condition> {
  yield condition;
  const parts = [...(condition.all ?? []), ...(condition.any ?? [])];
  for (const part of condition.not ? [...parts, condition.not] : parts) yield* partsOf(part);
}
