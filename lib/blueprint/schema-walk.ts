/** Looks into a zod schema along the path of a value: which fields and tags are declared there. */
import type * as z from 'zod/mini';
import { isObject, type JsonValue, member } from '../json.ts';

export type Schema = z.core.$ZodType;

/** The value at a path of keys and indices; own members only. */
export function valueAt(document: JsonValue, path: readonly PropertyKey[]): JsonValue | undefined {
  let value: JsonValue | undefined = document;
  for (const key of path) {
    if (Array.isArray(value)) value = value[Number(key)];
    else value = isObject(value) ? member(value, String(key)) : undefined;
  }
  return value;
}

/** Names of the fields that the object at a path may have. */
export function fieldsAt(schema: Schema, path: readonly PropertyKey[], document: JsonValue): string[] {
  const found = definition(follow(schema, path, document));
  return found?.type === 'object' ? Object.keys(found.shape) : [];
}

/** Tags of the union whose discriminator a path ends with. */
export function tagsAt(schema: Schema, path: readonly PropertyKey[], document: JsonValue): unknown[] {
  const found = definition(unwrapped(follow(schema, path.slice(0, -1), document)));
  if (found?.type !== 'union') return [];
  return found.options.flatMap((option) => [...(field(option, path.at(-1))?._zod.values ?? [])]);
}

/** The option that the value at a path means, as an index, where a union without a tag is declared. */
export function optionAt(schema: Schema, path: readonly PropertyKey[], document: JsonValue): number {
  const owner = follow(schema, path.slice(0, -1), document);
  const found = definition(unwrapped(field(owner, path.at(-1))));
  return found?.type === 'union' ? optionFor(found.options, valueAt(document, path)) : 0;
}

/** Goes from schema to schema; at a union the option that the value's tag chooses. */
function follow(schema: Schema, path: readonly PropertyKey[], document: JsonValue): Schema | undefined {
  let at = chosen(schema, document);
  for (let i = 0; i < path.length; i++) {
    const found = definition(at);
    const next = found?.type === 'array' ? found.element : field(at, path[i]);
    at = chosen(next, valueAt(document, path.slice(0, i + 1)));
  }
  return at;
}

function chosen(schema: Schema | undefined, value: JsonValue | undefined): Schema | undefined {
  const plain = unwrapped(schema);
  const found = definition(plain);
  if (found?.type !== 'union') return plain;
  if (!('discriminator' in found)) return unwrapped(found.options[optionFor(found.options, value)]);
  const tag = String(found.discriminator);
  const given = isObject(value) ? member(value, tag) : undefined;
  return found.options.find((option) => field(option, tag)?._zod.values?.has(given as string)) ?? plain;
}

/** Of options without a tag the one that a value means: by its type, an object also by its keys. */
function optionFor(options: readonly Schema[], value: JsonValue | undefined): number {
  const isFor = (option: Schema): boolean => {
    const found = definition(option);
    const isForObjects = found?.type === 'object' || found?.type === 'record';
    if (!isObject(value)) return !isForObjects;
    return found?.type === 'record' || Object.keys(value).some((key) => field(option, key) !== undefined);
  };
  const last = options.length - 1;
  return Math.max(0, isObject(value) && !options.some(isFor) ? last : options.findIndex(isFor));
}

function unwrapped(schema: Schema | undefined): Schema | undefined {
  for (let at = schema; ; ) {
    const found = definition(at);
    if (found?.type === 'optional' || found?.type === 'nullable') at = found.innerType;
    else if (found?.type === 'lazy') at = found.getter();
    else return at;
  }
}

function field(schema: Schema | undefined, name: PropertyKey | undefined): Schema | undefined {
  const found = definition(schema);
  if (found?.type === 'record') return found.valueType;
  if (found?.type !== 'object' || !Object.hasOwn(found.shape, String(name))) return undefined;
  return found.shape[String(name)];
}

/** Every schema is one of zod's own kinds, which its type does not say. */
function definition(schema: Schema | undefined): z.core.$ZodTypes['_zod']['def'] | undefined {
  return (schema as z.core.$ZodTypes | undefined)?._zod.def;
}
