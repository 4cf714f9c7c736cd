/** Stores the artifact files of an attempt, a few at a time. */
import type { LabelledArtifact } from './child-files.ts';
import { type Persistence, persist, upload } from './settle.ts';
import { attemptKey } from './store/keys.ts';
import type { ObjectStore } from './store/object-store.ts';
import type { AttemptId } from './store/result-store.ts';
import type { Artifact, Outcome } from './task.ts';

/** Small files at a time; larger ones go one by one, as each takes memory for several parts. */
const LANES = 4;
const SMALL_BYTES = 4 * 1024 * 1024;

interface StoredArtifacts {
  /** in the order of the files */
  readonly artifacts: readonly Artifact[];
  /** labels of those that changed or went away before they were stored */
  readonly lost: readonly string[];
}

/** Stores the files, and what the outcome is with those that could not be. */
export async function settleArtifacts<T extends Omit<Outcome, 'value'>>(
  store: ObjectStore,
  id: AttemptId,
  time: Persistence,
  found: { readonly outcome: T; readonly artifacts: readonly LabelledArtifact[] },
): Promise<{ readonly outcome: T; readonly stored: readonly Artifact[] }> {
  const { artifacts, lost } = await storeArtifacts(store, id, found.artifacts, time);
  return { outcome: withLost(found.outcome, lost), stored: artifacts };
}

/** Streams each file into the store. */
async function storeArtifacts(
  store: ObjectStore,
  { task_id, attempt }: AttemptId,
  files: readonly LabelledArtifact[],
  time: Persistence,
): Promise<StoredArtifacts> {
  const stored: (Artifact | null)[] = files.map(() => null);
  const lane = async (waiting: Iterable<[number, LabelledArtifact]>): Promise<void> => {
    for (const [index, file] of waiting) {
      const key = attemptKey(task_id, attempt, `artifacts/${file.key}`);
      const write = () => storeFile(store, key, file);
      stored[index] = await persist({ ...time, bytes: file.size_bytes }, write);
    }
  };
  const small = files.entries().filter(([, { size_bytes }]) => size_bytes <= SMALL_BYTES);
  await Promise.all(Array.from({ length: LANES }, () => lane(small)));
  await lane(files.entries().filter(([, { size_bytes }]) => size_bytes > SMALL_BYTES));
  return {
    artifacts: stored.filter((one) => one !== null),
    lost: files.filter((_, index) => stored[index] === null).map(({ label }) => label),
  };
}

/** A step does not pass with an artifact that was found and is not in the store. */
function withLost<T extends Omit<Outcome, 'value'>>(outcome: T, lost: readonly string[]): T {
  if (lost.length === 0) return outcome;
  const text = `artifacts changed or went away before they were stored: ${lost.slice(0, 5).join(', ')}`;
  if (!outcome.ok) return { ...outcome, warnings: [...outcome.warnings, text] };
  return { ...outcome, ok: false, reason: 'artifact_missing', message: text };
}

/** Null when it is no longer the file that was found, or is shorter than it was. */
async function storeFile(store: ObjectStore, key: string, file: LabelledArtifact): Promise<Artifact | null> {
  const { name, size_bytes, media_type } = file;
  const opened = await file.open();
  if (!opened) return null;
  try {
    const content = async function* (): AsyncGenerator<Uint8Array> {
      // a stream of no bytes cannot be asked for
      if (size_bytes > 0) yield* opened.createReadStream({ start: 0, end: size_bytes - 1, autoClose: false });
    };
    const { value_ref } = await upload(store, key, content);
    if (value_ref?.size_bytes !== size_bytes) return null;
    return { name, key, size_bytes, sha256: value_ref.sha256, media_type };
  } finally {
    await opened.close();
  }
}
