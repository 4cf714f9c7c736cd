/**
 * The store in an S3 bucket: each object is one S3 object, its version the ETag. Create and replace are S3's
 * conditional writes, so that the server decides between writers.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { StepspawnError } from '../errors.ts';
import { compareUtf8 } from '../json.ts';
import type { ObjectStore } from './object-store.ts';
import { openBody, readWhole } from './s3-body.ts';
import { connect, type S3Clients, type S3Options } from './s3-client.ts';
import { causeOf, type Deed, storeUnavailable } from './s3-errors.ts';
import { upload } from './s3-upload.ts';

/**
 * Opens the store at `s3://bucket/prefix`; nothing is sent yet. Endpoint, region and credentials come from the
 * SDK's own AWS_* variables and files, unless given. Throws InvalidTask when the URL is not of that form.
 */
export function s3Store(url: string, options: S3Options = {}): ObjectStore {
  const { bucket: Bucket, prefix } = parseLocation(url);
  const place = (key: string): string => `s3://${Bucket}/${prefix}${key}`;
  const target = (key: string): { Bucket: string; Key: string } => {
    if (!isClean(key))
      throw new StepspawnError('StoreUnavailable', `key '${key}' has a part that is empty, . or ..`);
    return { Bucket, Key: prefix + key };
  };
  let connection: Promise<S3Clients> | undefined;
  const connected = (): Promise<S3Clients> => {
    connection ??= connect(options).catch((error: unknown) => {
      // what fails now may work the next time
      connection = undefined;
      throw error;
    });
    return connection;
  };
  const attempt = async <T>(deed: Deed, key: string, run: (clients: S3Clients) => Promise<T>): Promise<T> => {
    try {
      return await run(await connected());
    } catch (error) {
      throw storeUnavailable(error, place(key), deed);
    }
  };

  return {
    url: place('').replace(/\/$/, ''),
    connect: connected,
    read: (key) => attempt('read', key, ({ requests }) => readWhole(requests, target(key))),
    create: (key, body) =>
      attempt('created', key, ({ requests }) =>
        decided(() => requests.putObject({ ...target(key), Body: Buffer.from(body), IfNoneMatch: '*' })),
      ),
    replace: (key, body, version) =>
      attempt('replaced', key, ({ requests }) =>
        decided(() => requests.putObject({ ...target(key), Body: Buffer.from(body), IfMatch: version })),
      ),
    upload: (key, content) =>
      attempt('uploaded', key, ({ requests }) => upload(requests, target(key), content)),
    open: (key) =>
      attempt('read', key, ({ streams, stall_ms }) =>
        openBody(streams, target(key), stall_ms, (error) => storeUnavailable(error, place(key), 'read')),
      ),
    list: (below) =>
      attempt('listed', below, async ({ requests }) => {
        const keys: string[] = [];
        let ContinuationToken: string | undefined;
        do {
          const page = await requests.listObjectsV2({ Bucket, Prefix: prefix + below, ContinuationToken });
          keys.push(...(page.Contents ?? []).map(({ Key = '' }) => Key.slice(prefix.length)));
          ContinuationToken = page.NextContinuationToken;
        } while (ContinuationToken !== undefined);
        return keys.sort(compareUtf8);
      }),
  };
}

const LOCATION = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([^?#]*))?$/;

/** The prefix is empty or ends in `/`. */
function parseLocation(url: string): { readonly bucket: string; readonly prefix: string } {
  const [matched, bucket = '', path = ''] = LOCATION.exec(url) ?? [];
  const folder = path.replace(/\/$/, '');
  if (matched === undefined || (folder !== '' && !isClean(folder)))
    throw new StepspawnError('InvalidTask', `store URL '${url}' is not supported; use s3://bucket/prefix`);
  return { bucket, prefix: folder === '' ? '' : `${folder}/` };
}

function isClean(key: string): boolean {
  return key.split('/').every((part) => part !== '' && part !== '.' && part !== '..');
}

/** How often a conditional write is sent that S3 does not decide because another is under way. */
const TRIES = 6;

/** Whether the condition of a conditional write held. */
async function decided(write: () => Promise<unknown>): Promise<boolean> {
  for (let tried = 1; ; tried++) {
    try {
      await write();
      return true;
    } catch (error) {
      const { name, status } = causeOf(error);
      if (status === 412 || name === 'NoSuchKey') return false;
      if (status !== 409 || tried === TRIES) throw error;
    }
    await pause(50 * 2 ** tried * (0.5 + Math.random() / 2));
  }
}
