/** Walks YAML nodes: to the JSON value they stand for, and to the offset of what a pointer names. */
import {
  type Alias,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  type Scalar,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml';
import { type JsonObject, type JsonValue, MAX_DEPTH, setMember } from '../json.ts';
import { quote, shorten } from './nearest.ts';
import { unescapeSegments } from './source-text.ts';

/** What JSON cannot say, or what would not end in bounded time. */
export class YamlFault extends Error {
  readonly code: 'not_yaml' | 'too_deep' | 'too_large';
  readonly offset: number | undefined;
  constructor(code: 'not_yaml' | 'too_deep' | 'too_large', message: string, offset: number | undefined) {
    super(message);
    this.name = 'YamlFault';
    this.code = code;
    this.offset = offset;
  }
}

/** Values, and characters of text, that aliases may add to a document. */
export const MAX_ALIASED_VALUES = 100_000;
export const MAX_ALIASED_CHARS = 16 * 1024 * 1024;

type Walk = {
  /** by name, in document order; undefined while the node itself is being read */
  readonly anchors: Map<string, Anchored | undefined>;
  /** of everything read so far, aliases expanded */
  values: number;
  chars: number;
  deepest: number;
  /** what aliases added */
  aliasedValues: number;
  aliasedChars: number;
};
type Anchored = {
  readonly value: JsonValue;
  readonly values: number;
  readonly chars: number;
  readonly height: number;
};

/** The JSON value of a document whose own nesting is bounded. Throws `YamlFault`. */
export function yamlToJson(document: Document.Parsed): JsonValue {
  const { version } = document.directives.yaml;
  if (version !== '1.2')
    throw new YamlFault('not_yaml', `YAML ${version} is not supported; write YAML 1.2`, 0);
  const walk = { anchors: new Map(), values: 0, chars: 0, deepest: 0, aliasedValues: 0, aliasedChars: 0 };
  return toJson(document.contents, 0, walk);
}

/** `depth` counts the containers around the node. */
function toJson(node: unknown, depth: number, walk: Walk): JsonValue {
  if (isAlias(node)) return aliased(node, depth, walk);
  const anchor = isScalar(node) || isMap(node) || isSeq(node) ? node.anchor : undefined;
  if (anchor === undefined) return plain(node, depth, walk);
  const { values, chars, deepest } = walk;
  walk.anchors.set(anchor, undefined);
  walk.deepest = depth;
  const value = plain(node, depth, walk);
  walk.anchors.set(anchor, {
    value,
    values: walk.values - values,
    chars: walk.chars - chars,
    height: walk.deepest - depth,
  });
  walk.deepest = Math.max(walk.deepest, deepest);
  return value;
}

function aliased(alias: Alias, depth: number, walk: Walk): JsonValue {
  const offset = alias.range?.[0];
  const found = walk.anchors.get(alias.source);
  if (!found) {
    const why = walk.anchors.has(alias.source) ? 'stands inside what it names' : 'names no anchor before it';
    throw new YamlFault('not_yaml', `alias *${shorten(alias.source)} ${why}`, offset);
  }
  walk.values += found.values;
  walk.chars += found.chars;
  walk.deepest = Math.max(walk.deepest, depth + found.height);
  walk.aliasedValues += found.values;
  walk.aliasedChars += found.chars;
  if (walk.aliasedValues > MAX_ALIASED_VALUES || walk.aliasedChars > MAX_ALIASED_CHARS) {
    const limit = `${MAX_ALIASED_VALUES} values or ${MAX_ALIASED_CHARS} characters`;
    throw new YamlFault('too_large', `aliases add more than ${limit} to the document`, offset);
  }
  if (depth + found.height > MAX_DEPTH) throw tooDeep(offset);
  return found.value;
}

function tooDeep(offset: number | undefined): YamlFault {
  return new YamlFault('too_deep', `nested deeper than ${MAX_DEPTH} levels`, offset);
}

function plain(node: unknown, depth: number, walk: Walk): JsonValue {
  walk.values++;
  if (isScalar(node)) return scalar(node, walk);
  if (!isMap(node) && !isSeq(node)) return null;
  if (depth >= MAX_DEPTH) throw tooDeep(node.range?.[0]);
  walk.deepest = Math.max(walk.deepest, depth + 1);
  return isMap(node) ? object(node, depth, walk) : list(node, depth, walk);
}

function list(node: YAMLSeq, depth: number, walk: Walk): JsonValue[] {
  return node.items.map((item) => toJson(item, depth + 1, walk));
}

function object(node: YAMLMap, depth: number, walk: Walk): JsonObject {
  const result: JsonObject = {};
  for (const { key, value } of node.items) {
    const name = keyText(key);
    const offset = offsetOf(key) ?? node.range?.[0];
    if (name === undefined)
      throw new YamlFault('not_yaml', 'a key must be text, a number or a boolean', offset);
    if (Object.hasOwn(result, name)) throw new YamlFault('not_yaml', `duplicate key ${quote(name)}`, offset);
    if (isScalar(key) && key.anchor !== undefined) {
      walk.anchors.set(key.anchor, { value: name, values: 1, chars: name.length, height: 0 });
    }
    walk.chars += name.length;
    setMember(result, name, toJson(value, depth + 1, walk));
  }
  return result;
}

function keyText(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined;
  if (typeof key.value === 'string') return key.value.isWellFormed() ? key.value : undefined;
  const isText = typeof key.value === 'number' || typeof key.value === 'boolean';
  return isText ? (key.source ?? String(key.value)) : undefined;
}

function scalar(node: Scalar, walk: Walk): JsonValue {
  const { value, range } = node;
  if (typeof value === 'string') {
    if (!value.isWellFormed())
      throw new YamlFault('not_yaml', 'a lone surrogate in a string escape', range?.[0]);
    walk.chars += value.length;
    return value;
  }
  if (typeof value === 'number') return number(node, value);
  if (typeof value === 'boolean' || value == null) return value ?? null;
  throw new YamlFault('not_yaml', `${shorten(node.source ?? '')} is not a JSON value`, range?.[0]);
}

/** The number as it is written where a double would change it; `+1`, `.5`, `0x1F` in JSON's spelling. */
function number({ source, range }: Scalar, value: number): JsonValue {
  const text = source === undefined ? String(value) : jsonNumber(source);
  if (text === undefined || !Number.isFinite(Number(text))) {
    throw new YamlFault(
      'not_yaml',
      `${shorten(source ?? String(value))} is not a number that JSON can hold`,
      range?.[0],
    );
  }
  return String(Number(text)) === text ? Number(text) : JSON.rawJSON(text);
}

function jsonNumber(source: string): string | undefined {
  if (/^0[xo][0-9a-f]+$/i.test(source)) return source.length > 400 ? undefined : BigInt(source).toString();
  const parts = /^([-+]?)(\d*)(?:\.(\d*))?([eE][-+]?\d+)?$/.exec(source);
  if (!parts) return undefined;
  const [, sign, whole = '', fraction = '', exponent = ''] = parts;
  const digits = whole.replace(/^0+(?=\d)/, '') || '0';
  return `${sign === '-' ? '-' : ''}${digits}${fraction === '' ? '' : `.${fraction}`}${exponent}`;
}

function offsetOf(node: unknown): number | undefined {
  return isScalar(node) || isMap(node) || isSeq(node) || isAlias(node) ? node.range?.[0] : undefined;
}

/** Where the value at a pointer begins, or the nearest value around it that exists. */
export function offsetOfNode(document: Document.Parsed, pointer: string): number | undefined {
  let node: unknown = document.contents;
  let offset = offsetOf(node);
  for (const key of unescapeSegments(pointer)) {
    const pair = isMap(node) ? node.items.find((item) => keyText(item.key) === key) : undefined;
    node = pair ? pair.value : isSeq(node) ? node.items[Number(key)] : undefined;
    if (pair === undefined && node === undefined) break;
    offset = offsetOf(node) ?? offsetOf(pair?.key) ?? offset;
  }
  return offset;
}
