/** Bodies of S3 objects, whole or as streams, which break off and stall as connections do. */
import { Readable } from 'node:stream';
import type { GetObjectCommandOutput, S3 } from '@aws-sdk/client-s3';
import type { StoredObject } from './object-store.ts';
import { causeOf } from './s3-errors.ts';

interface Target {
  readonly Bucket: string;
  readonly Key: string;
}

/** How often an object is asked for whose body breaks off. */
const TRIES = 3;

/** The object with its ETag as version, or null when there is none. */
export async function readWhole(s3: S3, target: Target): Promise<StoredObject | null> {
  for (let tried = 1; ; tried++) {
    const answer = await getOrNull(s3, target);
    if (answer === null) return null;
    try {
      const bytes = (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
      const body = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      return { body, version: answer.ETag ?? '' };
    } catch (error) {
      if (tried === TRIES) throw error;
    }
  }
}

/**
 * The object's body, or null when there is none. Its errors are what `translate` makes of them; one of them is that
 * nothing arrives for `stall_ms` while somebody waits for it.
 */
export async function openBody(
  s3: S3,
  target: Target,
  stall_ms: number,
  translate: (error: unknown) => Error,
): Promise<Readable | null> {
  const answer = await getOrNull(s3, target);
  if (answer === null) return null;
  if (!(answer.Body instanceof Readable)) return Readable.from([]);
  const body = answer.Body;
  // an error that comes before the first read waits for it in the iterator
  body.on('error', () => undefined);
  const chunks = body[Symbol.asyncIterator]();
  return new Readable({
    async read() {
      const timer = setTimeout(() => body.destroy(stalled(stall_ms)), stall_ms);
      try {
        const next = await chunks.next();
        this.push(next.done ? null : next.value);
      } catch (error) {
        this.destroy(translate(error));
      } finally {
        clearTimeout(timer);
      }
    },
    destroy(error, done) {
      body.destroy();
      done(error);
    },
  });
}

async function getOrNull(s3: S3, target: Target): Promise<GetObjectCommandOutput | null> {
  try {
    return await s3.getObject(target);
  } catch (error) {
    if (causeOf(error).name === 'NoSuchKey') return null;
    throw error;
  }
}

function stalled(stall_ms: number): Error {
  return Object.assign(new Error(`nothing arrived for ${stall_ms} ms`), { name: 'TimeoutError' });
}
