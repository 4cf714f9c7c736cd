/** The two folders that files and artifacts lie below, held open: what the child does to their paths changes nothing. */
import type { FileHandle } from 'node:fs/promises';
import type { Place } from '../blueprint/places.ts';
import { codeOf, openFolder } from './below.ts';

export interface OpenPlace {
  /** null where it cannot be opened, `code` says why */
  readonly folder: FileHandle | null;
  readonly code: string;
  /** for messages */
  readonly label: string;
  /** made by us for this attempt alone, and removed with it */
  readonly isOwn: boolean;
}

export interface Places extends Readonly<Record<Place, OpenPlace>> {
  readonly close: () => Promise<void>;
}

/** Opens HOME and the directory that the child runs in, `own` being that of the attempt. */
export async function openPlaces(paths: {
  readonly home: string;
  readonly work: string;
  readonly own: string;
}): Promise<Places> {
  const home = await openPlace(paths.home, '~, the HOME of the attempt', true);
  const isOwn = paths.work === paths.own;
  const work = await openPlace(paths.work, isOwn ? 'the directory of the attempt' : paths.work, isOwn);
  const close = async (): Promise<void> => {
    await Promise.all([home.folder?.close(), work.folder?.close()]);
  };
  return { home, work, close };
}

async function openPlace(path: string, label: string, isOwn: boolean): Promise<OpenPlace> {
  try {
    return { folder: await openFolder(path), code: '', label, isOwn };
  } catch (error) {
    return { folder: null, code: codeOf(error), label, isOwn };
  }
}
