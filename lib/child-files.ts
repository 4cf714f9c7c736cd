/** What a template adds to the files of its child: those it writes before the start, and those it asks for at the end. */
import type { EmbedTemplate } from './blueprint/compile.ts';
import { escapeSegment } from './json.ts';
import type { ResolvedLimits } from './limits.ts';
import { type ArtifactFile, shown } from './worker/artifact-files.ts';
import { findArtifacts } from './worker/artifact-verdict.ts';
import type { Collected } from './worker/collect.ts';
import { writeFiles } from './worker/files.ts';
import { trackMade } from './worker/made-files.ts';
import type { Mask } from './worker/mask.ts';
import { openPlaces } from './worker/places.ts';
import type { Command } from './worker/render.ts';
import { type ChildUser, JOURNAL, type Scratch } from './worker/scratch.ts';

export interface LabelledArtifact extends ArtifactFile {
  /** its name for a message, secrets hidden */
  readonly label: string;
}

/** An output with what its artifacts mean to it; null where none are declared. */
export interface Finished {
  readonly collected: Collected;
  /** they can be opened until the scratch is removed */
  readonly artifacts: readonly LabelledArtifact[] | null;
}

export interface ChildFiles {
  /** Looks for artifacts, once nothing of the child runs. */
  readonly finish: (collected: Collected) => Promise<Finished>;
  /** Removes what was written outside of the scratch; the paths that could not be removed. */
  readonly remove: () => Promise<readonly string[]>;
}

/** Writes the files of the command. Throws SpawnFailed and StoreUnavailable, and then leaves nothing behind. */
export async function writeChildFiles(options: {
  readonly worker: EmbedTemplate;
  readonly command: Command;
  /** where the child runs */
  readonly cwd: string;
  readonly scratch: Scratch;
  readonly limits: ResolvedLimits;
  readonly mask: Mask;
  readonly user: ChildUser | undefined;
}): Promise<ChildFiles> {
  const { worker, scratch, limits, mask, user } = options;
  const { files = {} } = options.command;
  const places = await openPlaces({ home: scratch.home, work: options.cwd, own: scratch.work });
  scratch.atEnd(places.close);
  const { folder, isOwn } = places.work;
  const made = folder && !isOwn ? await trackMade(folder, scratch.file(JOURNAL)) : null;
  const remove = async () => (await made?.remove()) ?? [];
  try {
    const origin = (path: string) => `${worker.pointer}/files/${escapeSegment(path)}`;
    await writeFiles({ files, places, origin, user, made });
  } catch (error) {
    await remove();
    throw error;
  }
  const { artifacts } = worker;
  if (artifacts === null) return { finish: withoutArtifacts, remove };
  const finish = async (collected: Collected): Promise<Finished> => {
    const found = await findArtifacts({
      artifacts,
      places,
      written: new Set(Object.keys(files)),
      taken: collected.artifacts,
      max_bytes: limits.artifact_bytes,
      user,
    });
    return {
      collected: { ...collected, outcome: judge(collected.outcome, found, mask) },
      artifacts: found.files.map((file) => ({ ...file, label: mask.text(shown(file.name)) })),
    };
  };
  return { finish, remove };
}

async function withoutArtifacts(collected: Collected): Promise<Finished> {
  return { collected, artifacts: null };
}

/** A step that failed on its own keeps its reason. */
function judge(
  outcome: Collected['outcome'],
  { warnings, failure }: Awaited<ReturnType<typeof findArtifacts>>,
  mask: Mask,
): Collected['outcome'] {
  const told = failure && (!outcome.ok || failure.reason === 'output_limit') ? [failure.message] : [];
  return {
    ...outcome,
    ...(outcome.ok && failure && { ok: false, reason: failure.reason, message: mask.text(failure.message) }),
    warnings: [...outcome.warnings, ...[...warnings, ...told].map(mask.text)],
  };
}
