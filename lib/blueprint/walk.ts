/** One look at every value of a document: nesting depth and authoring references. */
import type { Issue } from '../errors.ts';
import { isRaw, type JsonValue, MAX_DEPTH, toPointer } from '../json.ts';
import { error } from './issues.ts';

/** Members that the reference expands before parsing; this product takes the document as it is. */
export const AUTHORING_REFS: readonly string[] = ['$file', '$agent_md'];

/** Issues for nesting over `MAX_DEPTH` (the first place only) and for `{"$file": …}` and `{"$agent_md": …}`. */
export function walkDocument(document: JsonValue): Issue[] {
  const walk: Walk = { path: [], issues: [], tooDeep: false };
  if (typeof document === 'object' && document !== null) visit(document, walk);
  return walk.issues;
}

interface Walk {
  readonly path: PropertyKey[];
  readonly issues: Issue[];
  tooDeep: boolean;
}

function visit(value: object, walk: Walk): void {
  if (walk.tooDeep || isRaw(value)) return;
  if (walk.path.length >= MAX_DEPTH) {
    walk.tooDeep = true;
    walk.issues.push(error('too_deep', toPointer(walk.path), `nested deeper than ${MAX_DEPTH} levels`));
  } else if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) enter(i, value[i], walk);
  } else {
    for (const [key, item] of Object.entries(value)) {
      if (key.charCodeAt(0) === DOLLAR && AUTHORING_REFS.includes(key)) refuse(key, walk);
      enter(key, item, walk);
    }
  }
}

function enter(key: PropertyKey, value: unknown, walk: Walk): void {
  if (typeof value !== 'object' || value === null) return;
  walk.path.push(key);
  visit(value, walk);
  walk.path.pop();
}
const DOLLAR = 0x24;

function refuse(key: string, walk: Walk): void {
  const message = `{"${key}": …} is an authoring reference, which is not expanded here; write the content itself into the document`;
  walk.issues.push(error('unsupported_reference', toPointer(walk.path), message));
}
