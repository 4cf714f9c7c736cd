/**
 * A program's stdout to S3 with the SDK's own Upload, as documented: `node lib-storage.ts KEY PROGRAM ARGS…` prints an
 * `Uploaded`.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { S3Client } from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import { peakBytes } from '../support/memory.ts';

export interface Uploaded {
  readonly ms: number;
  readonly peak_bytes: number;
}

const [Key = '', program = '', ...args] = process.argv.slice(2);
const client = new S3Client({ forcePathStyle: true });
await put(`${Key}-warm`, 'true', []);
const begun = performance.now();
await put(Key, program, args);
const ms = performance.now() - begun;
client.destroy();
process.stdout.write(JSON.stringify({ ms, peak_bytes: peakBytes() } satisfies Uploaded));

async function put(key: string, command: string, parameters: readonly string[]): Promise<void> {
  const child = spawn(command, parameters, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'close');
  await new Upload({ client, params: { Bucket: 'bench', Key: key, Body: child.stdout } }).done();
  const [code] = await ended;
  if (code !== 0) throw new Error(`${command} ended with ${code}`);
}
