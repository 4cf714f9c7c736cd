/** After the child ended: the files it left that its template declares as artifacts, found and looked at. */
import type { FileHandle } from 'node:fs/promises';
import { readGlob } from '../blueprint/glob.ts';
import { type Place, placed } from '../blueprint/places.ts';
import type { ArtifactDef } from '../blueprint/schema.ts';
import { compareUtf8, sha256 } from '../json.ts';
import { segmentKey } from './artifacts.ts';
import { identityOf, inFolder, kindOf, mayDo, openFile, refusalOf } from './below.ts';
import { mediaType } from './media-type.ts';
import type { Places } from './places.ts';
import type { ChildUser } from './scratch.ts';
import { short } from './text.ts';
import { type DeclaredGlob, newBudget, walk } from './walk.ts';

export interface ArtifactsOrder {
  readonly artifacts: readonly ArtifactDef[];
  readonly places: Places;
  /** paths that the template wrote: they are no artifacts */
  readonly written: ReadonlySet<string>;
  /** keys below `artifacts/` that events of a stream have taken */
  readonly taken: { readonly has: (key: string) => boolean };
  /** the user that the child ran as: what that user cannot read is no artifact */
  readonly user?: ChildUser | undefined;
}

export interface ArtifactFile {
  /** path below the directory of the child, or `~/…` below HOME */
  readonly name: string;
  /** below `artifacts/` */
  readonly key: string;
  readonly size_bytes: number;
  readonly media_type: string;
  /** opens it for reading; null when it is no longer the file that was found */
  readonly open: () => Promise<FileHandle | null>;
}

export interface Search {
  /** regular files that can be read, sorted by name; they can be opened while the places are open */
  readonly files: readonly ArtifactFile[];
  /** how many match, and may be more than are looked at */
  readonly count: number;
  /** declarations by index that have such a file */
  readonly satisfied: ReadonlySet<number>;
  /** what matches and is not taken, with the reason; by the declarations that it would satisfy */
  readonly refused: readonly Refused[];
  /** why not all was looked at */
  readonly cuts: readonly string[];
}

export interface Refused {
  readonly text: string;
  readonly declared: readonly number[];
}

export const MAX_FILES = 1000;
const MAX_KEY_CHARS = 700;

/** A regular file that matches. */
interface Candidate {
  readonly name: string;
  /** names from the folder of its place */
  readonly names: readonly string[];
  readonly root: FileHandle;
  readonly key: string;
  readonly declared: readonly number[];
}

/** Looks for artifacts below both places. Nothing is read but names and sizes. */
export async function searchArtifacts(order: ArtifactsOrder): Promise<Search> {
  const budget = newBudget();
  const refused: Refused[] = [];
  const cuts: string[] = [];
  const candidates: Candidate[] = [];
  for (const place of ['work', 'home'] as const) {
    const globs = globsBelow(place, order.artifacts);
    if (globs.length === 0) continue;
    const { folder, label, code } = order.places[place];
    const walked = folder ? await walk(folder, globs, { budget, user: order.user }).catch(refusalOf) : code;
    if (!folder || typeof walked === 'string') {
      const declared = globs.map(({ index }) => index);
      refused.push({ text: `${label} cannot be read: ${walked}`, declared });
      continue;
    }
    if (walked.cut !== null) cuts.push(`below ${label}, ${walked.cut}`);
    refused.push(...walked.closed.map((text) => ({ text, declared: [] })));
    for (const { path, kind, declared } of walked.matches) {
      const name = place === 'home' ? `~/${path}` : path;
      if (order.written.has(name)) continue;
      const key = kind ?? keyOf(name, place);
      if (typeof key === 'string') refused.push({ text: `${shown(name)} is ${key}`, declared });
      else candidates.push({ name, names: path.split('/'), root: folder, key: key.key, declared });
    }
  }
  candidates.sort((a, b) => compareUtf8(a.name, b.name));
  return { ...(await inspectAll(candidates, order, refused)), count: candidates.length, refused, cuts };
}

function globsBelow(place: Place, artifacts: readonly ArtifactDef[]): DeclaredGlob[] {
  return artifacts.flatMap(({ glob }, index) => {
    const answer = readGlob(glob);
    return answer.ok && placed(glob).place === place ? [{ ...answer.glob, index }] : [];
  });
}

/** The key of a name, its digest where it is too long; or what is wrong with the name. */
function keyOf(name: string, place: Place): { readonly key: string } | string {
  if (place === 'work' && name.startsWith('~/')) return 'in a folder named ~, which stands for HOME';
  const segments = name.split('/').map(segmentKey);
  const key = segments.join('/');
  // no escaped name holds an @
  return { key: segments.includes(null) || key.length > MAX_KEY_CHARS ? `@${sha256(name)}` : key };
}

async function inspectAll(
  candidates: readonly Candidate[],
  { user }: ArtifactsOrder,
  refused: Refused[],
): Promise<Pick<Search, 'files' | 'satisfied'>> {
  const files: ArtifactFile[] = [];
  const satisfied = new Set<number>();
  for (const candidate of candidates.slice(0, MAX_FILES)) {
    const { name, declared } = candidate;
    const file = await inspect(candidate, user).catch(refusalOf);
    if (typeof file === 'string') {
      refused.push({ text: `${shown(name)} cannot be read: ${file}`, declared });
      continue;
    }
    files.push(file);
    for (const index of declared) satisfied.add(index);
  }
  return { files, satisfied };
}

/** The file as it is now, or why it cannot be taken. */
async function inspect(
  { name, names, root, key }: Candidate,
  user: ChildUser | undefined,
): Promise<ArtifactFile | string> {
  const openIt = () => inFolder(root, names.slice(0, -1), (folder) => openFile(folder, names.at(-1) ?? ''));
  const file = await openIt();
  try {
    const found = await file.stat({ bigint: true });
    if (!found.isFile()) return `it is now ${kindOf(found)}`;
    if (!mayDo(user, found, 'read')) return 'EACCES';
    const identity = identityOf(found);
    const open = async (): Promise<FileHandle | null> => {
      const again = await openIt().catch(refusalOf);
      if (typeof again === 'string') return null;
      if (identityOf(await again.stat({ bigint: true })) === identity) return again;
      await again.close();
      return null;
    };
    return { name, key, size_bytes: Number(found.size), media_type: mediaType(name), open };
  } finally {
    await file.close();
  }
}

/** A name for a message. */
export function shown(name: string): string {
  return `'${short(name, 200)}'`;
}
