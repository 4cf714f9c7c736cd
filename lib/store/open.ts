/** From a store's URL to its adapter. */
import { fileURLToPath } from 'node:url';
import { StepspawnError } from '../errors.ts';
import { folderStore } from './folder.ts';
import type { ObjectStore } from './object-store.ts';
import { s3Store } from './s3.ts';

/** `file:///folder` or `s3://bucket/prefix`. Throws InvalidTask for any other URL. */
export function openStore(url: string): ObjectStore {
  if (url.startsWith('s3://')) return s3Store(url);
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol === 'file:' && parsed.host === '' && !/%2f/i.test(url))
    return folderStore(fileURLToPath(parsed));
  throw new StepspawnError(
    'InvalidTask',
    `store URL '${url}' is not supported; use file:///folder or s3://bucket/prefix`,
  );
}
