import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Context, fork, openContext, read, share, write } from '../../lib/flow/context.ts';
import { begin, commit, rollback, snapshot } from '../../lib/flow/rollback.ts';
import { canonicalJson, isObject, type JsonValue, parseJson } from '../../lib/json.ts';
import { freeze } from './arbitrary.ts';
import { path } from './driver.ts';

const over = (json: string) => openContext(freeze(parseJson(json)));
const text = (context: Context) => canonicalJson(context.root);

test.each<[string, string, JsonValue, string]>([
  ['{}', '$.a.b', 1, '{"a":{"b":1}}'],
  ['{"a":null}', '$.a.b', 1, '{"a":{"b":1}}'],
  ['null', '$.a', 1, '{"a":1}'],
  ['{"a":{"x":1}}', '$.a.b', 1, '{"a":{"b":1,"x":1}}'],
  ['{"x":1}', '$', [1], '[1]'],
  ['{}', '$.__proto__.polluted', 1, '{"__proto__":{"polluted":1}}'],
  ['{}', '$.constructor.prototype.polluted', 1, '{"constructor":{"prototype":{"polluted":1}}}'],
])('%s with %s := %j', (before, at, value, after) => {
  const context = over(before);
  write(context, path(at), value);
  expect(text(context)).toBe(after);
  expect(context.size).toBe(openContext(parseJson(after)).size);
  expect(Object.keys(Object.prototype)).toEqual([]);
});

test.each([
  ['{"x":"str"}', 'cannot write $.x.y: $.x is not an object but string'],
  ['{"x":[1]}', 'cannot write $.x.y: $.x is not an object but array'],
  ['{"x":1.0}', 'cannot write $.x.y: $.x is not an object but number'],
  ['5', 'cannot write $.x.y: $ is not an object but number'],
])('%s refuses to be written through, and stays', (before, message) => {
  const context = over(before);
  expect(() => write(context, path('$.x.y'), 1)).toThrow(message);
  expect(text(context)).toBe(before);
});

test('a context does not nest deeper than what can be stored', () => {
  const context = over('{}');
  const long = (keys: number) => path(`$${'.a'.repeat(keys)}`);
  write(context, long(1000), 1);
  expect(() => write(context, long(1001), 1)).toThrow('nested deeper than 1000 levels');
  expect(() => write(context, path('$.b'), share(context, context.root))).toThrow('deeper than 1000');
  expect(text(context)).toHaveLength(1000 * 6 + 1);
});

test('a context does not stand for more text than there can be', () => {
  const context = over('{"a":"0123456789"}');
  const double = () => {
    for (const at of ['$.l', '$.r']) write(context, path(at), share(context, context.root));
  };
  expect(() => {
    for (let i = 0; i < 1000; i++) double();
  }).toThrow('the context would grow over 4294967296 characters of JSON');
});

test('what was handed out does not change', () => {
  const context = over('{"a":{"x":1}}');
  write(context, path('$.a.y'), 2);
  const out = share(context, read(context, path('$.a')));
  write(context, path('$.a.y'), 3);
  expect(canonicalJson(out)).toBe('{"x":1,"y":2}');
});

/** The same operations on deep copies: what a context must be equal to. */
function model() {
  let root: JsonValue = {};
  const saved: JsonValue[] = [];
  return {
    begin: () => saved.push(structuredClone(root)),
    commit: () => saved.pop(),
    rollback: () => {
      root = saved.pop()!;
    },
    write: (keys: string[], value: JsonValue) => {
      const copy = openContext(structuredClone(root));
      write(copy, path(['$', ...keys].join('.')), structuredClone(value));
      root = structuredClone(copy.root);
    },
    root: () => root,
  };
}

const keys: fc.Arbitrary<string[]> = fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 3 });
const operation = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      keys,
      value: fc.constantFrom<JsonValue>(1, null, {}, { a: { b: 1 } }, { a: 'x'.repeat(300) }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant('copy' as const),
      keys: fc.oneof({ weight: 8, arbitrary: keys }, fc.constant<string[]>([])),
      from: fc.oneof({ weight: 4, arbitrary: keys }, fc.constant<string[]>([])),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('fork' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constantFrom('begin' as const, 'commit' as const, 'rollback' as const) }),
  },
);

test('writes, copies, marks and forks give what deep copies would give', () => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 40, size: 'max' }), (operations) => {
      const context = over('{}');
      const expected = model();
      const seen: [JsonValue, string][] = [];
      const attempt = (to: string[], value: JsonValue) => {
        try {
          expected.write(to, value);
        } catch {
          expect(() => write(context, path(['$', ...to].join('.')), value)).toThrow();
          return;
        }
        write(context, path(['$', ...to].join('.')), value);
      };
      let depth = 0;
      for (const op of operations) {
        if (op.do === 'write') attempt(op.keys, freeze(op.value));
        else if (op.do === 'copy') {
          let value: JsonValue;
          try {
            value = share(context, read(context, path(['$', ...op.from].join('.'))));
          } catch {
            continue;
          }
          seen.push([value, canonicalJson(value)]);
          attempt(op.keys, value);
        } else if (op.do === 'fork') {
          const lane = fork(snapshot(context));
          seen.push([context.root, text(context)]);
          if (isObject(lane.root)) write(lane, path('$.a'), { lane: 1 });
          if (isObject(lane.root)) write(lane, path('$.b'), { lane: 1 });
        } else if (op.do === 'begin') {
          begin(context);
          expected.begin();
          depth++;
        } else if (depth > 0) {
          (op.do === 'commit' ? commit : rollback)(context);
          expected[op.do]();
          depth--;
        }
        expect(context.root).toEqual(expected.root());
        expect(context.size).toBe(openContext(expected.root()).size);
      }
      for (const [value, before] of seen) expect(canonicalJson(value)).toBe(before);
    }),
    { numRuns: 1000 },
  );
});
