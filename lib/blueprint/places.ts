/** Paths of a template below one of the two folders of an attempt: `~/…` below HOME, others where the child runs. */
import { quote } from './nearest.ts';

export type Place = 'home' | 'work';

const MAX_SEGMENT_BYTES = 255;
/** Linux takes no longer path. */
const MAX_PATH_BYTES = 4095;

/** The folder that a path lies below, and the rest of it. */
export function placed(path: string): { readonly place: Place; readonly rest: string } {
  return path.startsWith('~/') ? { place: 'home', rest: path.slice(2) } : { place: 'work', rest: path };
}

/** Why text cannot be a path, or a pattern of paths, below HOME or the directory of the child. */
export function placeProblem(text: string): string | undefined {
  if (text === '') return 'empty; name a file below the directory of the child, or ~/… for one below HOME';
  if (text.includes('\0')) return `a NUL byte at offset ${text.indexOf('\0')}, which no path can hold`;
  if (!text.isWellFormed()) return 'half a surrogate pair, which no path can hold';
  if (text.startsWith('/'))
    return 'absolute; write it relative to the directory of the child, or ~/… for HOME';
  if (/^~(?!\/)/.test(text)) return 'only ~/… names HOME; write ~/ and a path below it';
  const token = /\{[a-z_]+\}/.exec(text);
  if (token) return `${quote(token[0])} looks like a placeholder, and this is not a template`;
  return undefined;
}

/** Why a segment between slashes cannot be one. */
export function segmentProblem(segment: string): string | undefined {
  if (segment === '') return 'an empty segment; write one / between two names and none at the end';
  if (segment === '.' || segment === '..') return `the segment '${segment}'; only names below are allowed`;
  return undefined;
}

/** Why a path cannot name a file below HOME or the directory of the child. */
export function filePathProblem(path: string): string | undefined {
  const general = placeProblem(path);
  if (general !== undefined) return general;
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_PATH_BYTES) return `${bytes} bytes long, a path can have ${MAX_PATH_BYTES}`;
  for (const segment of placed(path).rest.split('/')) {
    const problem = segmentProblem(segment);
    if (problem !== undefined) return problem;
    const size = Buffer.byteLength(segment);
    if (size > MAX_SEGMENT_BYTES)
      return `the segment ${quote(segment)} is ${size} bytes long, a name can have ${MAX_SEGMENT_BYTES}`;
  }
  return undefined;
}
