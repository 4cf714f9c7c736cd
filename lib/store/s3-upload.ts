/** Content of any size to S3: in one request where it fits into one part, else in parts, a few at a time. */
import type { CompletedPart, S3 } from '@aws-sdk/client-s3';
import type { Content } from './object-store.ts';
import { causeOf } from './s3-errors.ts';

interface Target {
  readonly Bucket: string;
  readonly Key: string;
}

interface Part {
  /** from 1 */
  readonly number: number;
  readonly body: Buffer;
  readonly last: boolean;
}

const PART_BYTES = 8 * 1024 * 1024;
/** S3 takes 10,000 parts at most: they double in size every so many, which is enough for 8 TiB. */
const PARTS_OF_ONE_SIZE = 1000;
/** Parts in memory at a time; each is sent again from there. */
const SENDERS = 3;

/**
 * Writes the content under the key. Once more from its beginning when S3 no longer knows the parts, which is also
 * how it answers when the answer to the last request was lost.
 */
export async function upload(s3: S3, target: Target, content: Content): Promise<void> {
  try {
    await send(s3, target, content);
  } catch (error) {
    if (causeOf(error).name !== 'NoSuchUpload') throw error;
    await send(s3, target, content);
  }
}

async function send(s3: S3, target: Target, content: Content): Promise<void> {
  const free: Buffer[] = [];
  const parts = partsOf(content(), free);
  try {
    const first = await parts.next();
    if (first.done) return;
    if (first.value.last) await s3.putObject({ ...target, Body: first.value.body });
    else await sendParts(s3, target, first.value, parts, free);
  } finally {
    await parts.return(undefined);
  }
}

async function sendParts(
  s3: S3,
  target: Target,
  first: Part,
  rest: AsyncGenerator<Part>,
  free: Buffer[],
): Promise<void> {
  const { UploadId } = await s3.createMultipartUpload(target);
  const sent: CompletedPart[] = [];
  const stop = new AbortController();
  const sendPart = async ({ number: PartNumber, body: Body }: Part): Promise<void> => {
    const request = { ...target, UploadId, PartNumber, Body };
    const { ETag, ChecksumCRC32 } = await s3.uploadPart(request, { abortSignal: stop.signal });
    sent.push({ ETag, ChecksumCRC32, PartNumber });
    free.push(Body);
  };
  const sender = async (own?: Part): Promise<void> => {
    try {
      if (own) await sendPart(own);
      for (let next = await rest.next(); !next.done; next = await rest.next()) await sendPart(next.value);
    } catch (error) {
      stop.abort(error);
    }
  };
  try {
    await Promise.all([sender(first), ...Array.from({ length: SENDERS - 1 }, () => sender())]);
    stop.signal.throwIfAborted();
    const Parts = sent.sort((a, b) => Number(a.PartNumber) - Number(b.PartNumber));
    await s3.completeMultipartUpload({ ...target, UploadId, MultipartUpload: { Parts } });
  } catch (error) {
    await s3.abortMultipartUpload({ ...target, UploadId }).catch(() => undefined);
    throw error;
  }
}

/** Buffers of parts that were sent come back through `free` and are filled again. */
async function* partsOf(content: AsyncIterable<Uint8Array>, free: Buffer[]): AsyncGenerator<Part> {
  let number = 1;
  let buffer = bufferFor(number, free);
  let filled = 0;
  for await (const chunk of content) {
    for (let taken = 0; taken < chunk.length; ) {
      if (filled === buffer.length) {
        yield { number, body: buffer, last: false };
        buffer = bufferFor(++number, free);
        filled = 0;
      }
      const piece = chunk.subarray(taken, taken + buffer.length - filled);
      buffer.set(piece, filled);
      filled += piece.length;
      taken += piece.length;
    }
  }
  yield { number, body: buffer.subarray(0, filled), last: true };
}

function bufferFor(number: number, free: Buffer[]): Buffer {
  const bytes = PART_BYTES * 2 ** Math.floor((number - 1) / PARTS_OF_ONE_SIZE);
  const used = free.pop();
  return used?.length === bytes ? used : Buffer.allocUnsafe(bytes);
}
