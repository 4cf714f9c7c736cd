/** Maps with free keys in the schema. */
import * as z from 'zod/mini';
import { isObject, type JsonValue } from '../json.ts';
import { MAX_ISSUES } from './issues.ts';

/**
 * A map from any key to a kind of value, `expected` in the words of a message; unlike `z.record` it keeps `__proto__`
 * and takes no raw number for a map.
 */
export function mapOf<T extends JsonValue>(
  expected: string,
  accepts: (value: JsonValue) => boolean,
  jsonSchema: { readonly values: Readonly<Record<string, unknown>>; readonly names?: string },
) {
  return z
    .custom<Record<string, T>>()
    .check((ctx) => {
      const map: unknown = ctx.value;
      if (!isObject(map)) {
        ctx.issues.push({ code: 'invalid_type', expected: 'record', input: map });
        return;
      }
      for (const key of Object.keys(map)) {
        if (accepts(map[key]!)) continue;
        if (ctx.issues.length > MAX_ISSUES) return;
        ctx.issues.push({ code: 'invalid_type', expected, input: map[key], path: [key] });
      }
    })
    .register(z.globalRegistry, {
      type: 'object',
      additionalProperties: jsonSchema.values,
      ...(jsonSchema.names !== undefined && { propertyNames: { pattern: jsonSchema.names } }),
    });
}

/** Names to strings. */
export const StringMap = mapOf<string>('string', (value) => typeof value === 'string', {
  values: { type: 'string' },
});
