/** Artifacts that a streaming child names: kept as files until they are stored under the attempt. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { compactJson } from '../json.ts';
import type { StreamEvent } from './stream-event.ts';
import { short } from './text.ts';

/** Key below `artifacts/` to the file that holds it. */
export type Artifacts = ReadonlyMap<string, string>;

export interface ArtifactKeeper {
  readonly keep: (event: StreamEvent) => void;
  readonly artifacts: Artifacts;
  readonly warnings: readonly string[];
}

const MAX_ARTIFACTS = 1000;
const MAX_KEY_CHARS = 200;

/** Keeps the inline content of artifact events in `dir`, the last of each name: text as it is, other values as JSON. */
export function createArtifactKeeper(dir: string): ArtifactKeeper {
  const artifacts = new Map<string, string>();
  const warnings: string[] = [];
  const keep = (event: StreamEvent): void => {
    if (event.type !== 'artifact' || event.content.kind !== 'inline') return;
    const key = segmentKey(event.name);
    if (key === null || (artifacts.size >= MAX_ARTIFACTS && !artifacts.has(key))) {
      const why = key === null ? 'cannot be a key' : `is one over ${MAX_ARTIFACTS}`;
      if (warnings.length < 10)
        warnings.push(`artifact '${short(event.name, 60)}' is not stored: its name ${why}`);
      return;
    }
    const path = artifacts.get(key) ?? join(dir, String(artifacts.size));
    if (artifacts.size === 0) mkdirSync(dir, { mode: 0o700 });
    const { value } = event.content;
    writeFileSync(path, typeof value === 'string' ? value : compactJson(value), { mode: 0o600 });
    artifacts.set(key, path);
  };
  return { keep, artifacts, warnings };
}

/** One segment of a key: everything that could be a path is escaped; null for a name that cannot be one. */
export function segmentKey(name: string): string | null {
  if (name === '' || name === '.' || name === '..' || !name.isWellFormed()) return null;
  const key = encodeURIComponent(name).replaceAll('~', '%7E');
  return key.length <= MAX_KEY_CHARS ? key : null;
}
