/** From a JSON value to a typed Blueprint, or to all that is wrong with its shape and what is left to check. */
import * as z from 'zod/mini';
import type { Issue } from '../errors.ts';
import { isObject, isRaw, type JsonObject, type JsonValue, member, setMember } from '../json.ts';
import { Json } from '../task.ts';
import { FlowNode } from './flow-schema.ts';
import { MAX_ISSUES } from './issues.ts';
import { AgentDef, Blueprint, MetaDef, RunnerDef, SubprocessDef } from './schema.ts';
import { type SchemaIssue, STOP_AT_FIRST, translateIssues } from './schema-issues.ts';
import { valueAt } from './schema-walk.ts';

/** A value of which any part may be missing: what remains of a document once its ill-shaped parts are left out. */
export type Draft<T> = JsonObject extends T
  ? T
  : T extends readonly (infer Item)[]
    ? readonly (Draft<Item> | undefined)[]
    : T extends object
      ? { readonly [Key in keyof T]?: Draft<T[Key]> }
      : T;

export type ReadBlueprint =
  | { readonly ok: true; readonly blueprint: Blueprint }
  | { readonly ok: false; readonly issues: readonly Issue[]; readonly draft: Draft<Blueprint> };

/** Checks the shape of a document whose depth is bounded; a draft keeps list indices, with undefined for gaps. */
export function readBlueprint(document: JsonValue): ReadBlueprint {
  const blueprint = isLarge(document)
    ? readLarge(document)
    : Blueprint.safeParse(document, STOP_AT_FIRST).data;
  if (blueprint) return { ok: true, blueprint };
  const found = [...schemaIssues(document).take(MAX_ISSUES + 1)];
  const issues = found.flatMap(({ issue }) => issue ?? []);
  const isUsable = isObject(document) && found.length <= MAX_ISSUES;
  return { ok: false, issues, draft: isUsable ? draftOf(document, found) : {} };
}

function isLarge(document: JsonValue): boolean {
  return listAt(document, 'agents').length + listAt(document, 'subprocesses').length >= 500;
}

/** Generated code reads five times as fast, but making it costs more than reading a small document. */
function readLarge(document: JsonValue): Blueprint | undefined {
  generated ??= z.compile(z.extend(Blueprint, { flow: Json }));
  const rest = generated.safeParse(document, STOP_AT_FIRST).data;
  const flow = rest && FlowNode.safeParse(rest.flow, STOP_AT_FIRST).data;
  return flow && { ...rest, flow };
}

let generated: z.ZodMiniType<Omit<Blueprint, 'flow'> & { flow: JsonValue }> | undefined;

function listAt(document: JsonValue, field: string): readonly JsonValue[] {
  const list = isObject(document) ? member(document, field) : undefined;
  return Array.isArray(list) ? list : [];
}

const LISTS: ReadonlyMap<unknown, z.ZodMiniType> = new Map<unknown, z.ZodMiniType>([
  ['agents', AgentDef],
  ['runners', RunnerDef],
  ['subprocesses', SubprocessDef],
  ['metas', MetaDef],
]);

/** Every issue of the shape; zod sees one list element at a time, so that issues can be taken one by one. */
function* schemaIssues(document: JsonValue): Generator<SchemaIssue> {
  const lists = [...LISTS.keys()].map(String).filter((field) => listAt(document, field).length > 0);
  const emptied = Object.fromEntries(lists.map((field) => [field, []]));
  yield* partIssues(Blueprint, isObject(document) ? { ...document, ...emptied } : document, [], document);
  for (const field of lists) {
    for (const [i, element] of listAt(document, field).entries()) {
      yield* partIssues(LISTS.get(field)!, element, [field, i], document);
    }
  }
}

/** Values of a part that zod may report on one by one: it spreads issues as arguments, which the stack limits. */
const MAX_PART = 20_000;

function* partIssues(
  schema: z.ZodMiniType,
  part: JsonValue,
  at: PropertyKey[],
  document: JsonValue,
): Generator<SchemaIssue> {
  const first = schema.safeParse(part, STOP_AT_FIRST).error;
  if (!first) return;
  const isSmall = countUpTo(MAX_PART, part) < MAX_PART;
  const { issues: all } = (isSmall && schema.safeParse(part).error) || first;
  const issues = all.map((issue) => ({ ...issue, path: [...at, ...issue.path] }));
  for (const found of translateIssues(Blueprint, issues, document)) {
    yield isSmall ? found : { ...found, path: found.path.slice(0, Math.max(at.length, 1)) };
  }
}

function countUpTo(limit: number, value: JsonValue): number {
  if (typeof value !== 'object' || value === null || isRaw(value)) return 1;
  let count = 1;
  for (const key in value) {
    if (count >= limit) break;
    count += countUpTo(limit - count, (value as JsonObject)[key]!);
  }
  return count;
}

/** A copy without the values that issues name. */
function draftOf(document: JsonObject, issues: readonly SchemaIssue[]): Draft<Blueprint> {
  const copy = clone(document);
  for (const { path } of issues) leaveOut(copy, path);
  return copy as Draft<Blueprint>;
}

/** Of a list element that is left out as a whole the name stays, because others may refer to it. */
function leaveOut(copy: JsonObject, path: readonly PropertyKey[]): void {
  const owner = valueAt(copy, path.slice(0, -1));
  const key = String(path.at(-1));
  if (Array.isArray(owner)) {
    const element = owner[Number(key)];
    const name = path.length === 2 && element !== undefined && isObject(element) ? element.name : undefined;
    if (typeof name === 'string') owner[Number(key)] = { name };
    else Reflect.deleteProperty(owner, key);
  } else if (isObject(owner)) {
    Reflect.deleteProperty(owner, key);
    // without its runner an agent would be checked as one that has none; without a kind it is not bound at all
    if (path[0] === 'agents' && (key === 'runner' || key === 'runner_ref')) delete owner.kind;
  }
}

function clone<T extends JsonValue>(value: T): T;
function clone(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map((item) => clone(item));
  if (!isObject(value)) return value;
  const copy: JsonObject = {};
  for (const key of Object.keys(value)) setMember(copy, key, clone(value[key]!));
  return copy;
}
