/** Which of the found artifacts are stored, and whether a step that would pass does so with them. */
import { type FileHandle, opendir } from 'node:fs/promises';
import { nearest } from '../blueprint/nearest.ts';
import { placed } from '../blueprint/places.ts';
import type { Reason } from '../task.ts';
import {
  type ArtifactFile,
  type ArtifactsOrder,
  MAX_FILES,
  type Search,
  searchArtifacts,
  shown,
} from './artifact-files.ts';
import { enter, within } from './below.ts';

export interface FoundArtifacts {
  /** sorted by name; they can be opened while the places are open */
  readonly files: readonly ArtifactFile[];
  readonly warnings: readonly string[];
  /** why a step that would pass does not */
  readonly failure: { readonly reason: Reason; readonly message: string } | null;
}

/** Finds the artifacts of an attempt whose child has ended: what is stored of them, and what that means. */
export async function findArtifacts(
  order: ArtifactsOrder & { readonly max_bytes: number },
): Promise<FoundArtifacts> {
  const search = await searchArtifacts(order);
  const { files, refused, unfit } = choose(search, order);
  const more = refused.length - MAX_TOLD;
  const warnings = [
    ...refused.slice(0, MAX_TOLD).map((text) => `artifact not stored: ${text}`),
    ...(more > 0 ? [`${more} more artifacts are not stored`] : []),
  ];
  const failure = overflow(search, unfit) ?? (await missing(search, order));
  return { files, warnings, failure };
}

const MAX_TOLD = 10;

/** What fits into the limit in the order of names; the rest is not cut but left out. */
function choose(
  search: Search,
  { taken, max_bytes }: Parameters<typeof findArtifacts>[0],
): { readonly files: ArtifactFile[]; readonly refused: string[]; readonly unfit: string | null } {
  const files: ArtifactFile[] = [];
  const refused = search.refused.map(({ text }) => text);
  const left: string[] = [];
  let bytes = 0;
  let all = 0;
  for (const file of search.files) {
    if (taken.has(file.key.split('/', 1)[0] ?? '')) {
      refused.push(`${shown(file.name)} has the name of an artifact event, which is stored`);
      continue;
    }
    all += file.size_bytes;
    if (bytes + file.size_bytes > max_bytes) left.push(`${shown(file.name)} (${file.size_bytes} bytes)`);
    else {
      bytes += file.size_bytes;
      files.push(file);
    }
  }
  const unfit = `the artifacts have ${all} bytes together, limits.artifact_bytes allows ${max_bytes}; not stored: ${counted(left, 5).join(', ')}`;
  return { files, refused, unfit: left.length > 0 ? unfit : null };
}

function overflow({ count, cuts }: Search, unfit: string | null): FoundArtifacts['failure'] {
  const texts = [
    ...cuts.map((cut) => `the search for artifacts is not complete: ${cut}; narrow the globs`),
    ...(count > MAX_FILES
      ? [`${count} files match as artifacts, at most ${MAX_FILES} are stored; narrow the globs`]
      : []),
    ...(unfit === null ? [] : [`${unfit}; raise the limit or narrow the globs`]),
  ];
  return texts.length > 0 ? { reason: 'output_limit', message: texts.join('; ') } : null;
}

async function missing(search: Search, order: ArtifactsOrder): Promise<FoundArtifacts['failure']> {
  const texts: string[] = [];
  for (const [index, { glob, required }] of order.artifacts.entries()) {
    if (!required || search.satisfied.has(index)) continue;
    const { folder, label } = order.places[placed(glob).place];
    const refused = search.refused.filter(({ declared }) => declared.includes(index)).map(({ text }) => text);
    const near = folder && refused.length === 0 ? [await whatIsNear(folder, glob)] : counted(refused, 3);
    texts.push(`the required artifact ${shown(glob)} is missing below ${label}: ${near.join(', ')}`);
  }
  return texts.length > 0 ? { reason: 'artifact_missing', message: counted(texts, 3).join('; ') } : null;
}

const MAX_NAMES = 1000;

/** What lies where the glob leads, as far as it names folders that are there. */
async function whatIsNear(root: FileHandle, glob: string): Promise<string> {
  const segments = placed(glob).rest.split('/');
  let folder = root;
  let depth = 0;
  try {
    for (; depth < segments.length - 1 && !/[*?[{\\]/.test(segments[depth] ?? ''); depth++) {
      const next = await enter(folder, segments[depth] ?? '').catch(() => null);
      if (next === null) break;
      if (folder !== root) await folder.close();
      folder = next;
    }
    const names: string[] = [];
    for await (const { name } of await opendir(within(folder))) if (names.push(name) === MAX_NAMES) break;
    const similar = nearest(segments[depth] ?? '', names);
    const others = names.filter((name) => name !== similar).sort();
    const there = counted([...(similar === undefined ? [] : [similar]), ...others].map(shown), 5);
    const place = depth === 0 ? 'it' : shown(segments.slice(0, depth).join('/'));
    return `${place} holds ${there.length === 0 ? 'nothing' : there.join(', ')}`;
  } catch {
    return 'it cannot be read';
  } finally {
    if (folder !== root) await folder.close();
  }
}

/** The first texts, and how many more there are. */
function counted(texts: readonly string[], max: number): string[] {
  return texts.length <= max ? [...texts] : [...texts.slice(0, max), `and ${texts.length - max} more`];
}
