/** 1 GiB of text on stdout to S3, against the SDK's own Upload; and the memory that 1 GiB and more take. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interleave, type Measured, median, spread } from './measure.ts';
import type { Uploaded } from './peers/lib-storage.ts';
import { bundled, shipped } from './support/built.ts';
import type { MeasuredAttempt } from './support/invoke.ts';
import { freePort, runScript, startServer } from './support/processes.ts';
import { GIB, printing } from './support/text.ts';

const LEAST = 2;
const ALLOWED_MB = 180;
const ALLOWED_GROWTH_MB = 20;
/** Where 1 GiB takes longer, 4 GiB would take this benchmark too long, and 2 have to do. */
const QUICK_MS = 12_000;

export async function measure(): Promise<readonly Measured[]> {
  const port = await freePort();
  const sink = await startServer([process.execPath, bundled('support/s3-sink.ts'), `${port}`], port);
  const url = `http://127.0.0.1:${port}`;
  try {
    const sides = { theirs: () => libStorage(url, GIB), ours: () => attempt(url, GIB) };
    const { ours = [], theirs = [] } = await interleave(sides, { rounds: 2, warmup: 0 });
    const gib = Math.min(...ours.map(({ ms }) => ms)) < QUICK_MS ? 4 : 2;
    const larger = await attempt(url, gib * GIB);
    const [small, peer, large] = [ours, theirs, [larger]].map((all) =>
      Math.max(...all.map(({ peak_bytes }) => peak_bytes / 1e6)),
    ) as [number, number, number];
    return [
      {
        what: 'throughput of 1 GiB / lib-storage',
        ratio: median(theirs.map(({ ms }) => ms)) / median(ours.map(({ ms }) => ms)),
        least: LEAST,
        detail: `${rates(ours, 1)} / ${rates(theirs, 1)} MiB/s; ${gib} GiB ${rates([larger], gib)}`,
      },
      {
        what: `resident with 1 GiB, of ${ALLOWED_MB} MB`,
        ratio: small / ALLOWED_MB,
        goal: 1,
        detail: `${small.toFixed(0)} MB, lib-storage ${peer.toFixed(0)} MB`,
      },
      {
        what: `resident with ${gib} GiB - with 1 GiB, of ${ALLOWED_GROWTH_MB} MB`,
        ratio: (large - small) / ALLOWED_GROWTH_MB,
        goal: 1,
        detail: `${large.toFixed(0)} MB - ${small.toFixed(0)} MB`,
      },
    ];
  } finally {
    await sink.stop();
  }
}

const SETTINGS = {
  AWS_REGION: 'eu-central-1',
  AWS_ACCESS_KEY_ID: 'bench',
  AWS_SECRET_ACCESS_KEY: 'bench',
};
let made = 0;

async function attempt(url: string, bytes: number): Promise<MeasuredAttempt> {
  const dir = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
  const prefix = `ours-${made++}`;
  try {
    const template = JSON.stringify({ argv: printing(bytes), limits: { stdout_bytes: 2 * bytes } });
    const args = [shipped('spawn/index.mjs'), template];
    const settings = { STORE_URL: `s3://bench/${prefix}`, SCRATCH_DIR: dir, AWS_ENDPOINT_URL: url };
    const measured = await runScript<MeasuredAttempt>(bundled('support/invoke.ts'), args, {
      ...SETTINGS,
      ...settings,
    });
    const { stdout, value_ref } = measured.result;
    await checkSize(url, `${prefix}/${stdout.key}`, bytes);
    await checkSize(url, `${prefix}/${value_ref?.key}`, value_ref?.size_bytes ?? -1);
    return measured;
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function libStorage(url: string, bytes: number): Promise<Uploaded> {
  const key = `lib-storage-${made++}`;
  const args = [key, ...printing(bytes)];
  const uploaded = await runScript<Uploaded>(bundled('peers/lib-storage.ts'), args, {
    ...SETTINGS,
    AWS_ENDPOINT_URL: url,
  });
  await checkSize(url, key, bytes);
  return uploaded;
}

async function checkSize(url: string, key: string, bytes: number): Promise<void> {
  const sizes = (await (await fetch(url)).json()) as Record<string, number>;
  if (sizes[`/bench/${key}`] !== bytes)
    throw new Error(`the sink holds ${sizes[`/bench/${key}`]} bytes of ${key}, expected ${bytes}`);
}

function rates(all: readonly Uploaded[], gib: number): string {
  const numbers = all.map(({ ms }) => (gib * 1024) / (ms / 1000));
  return spread(numbers, 0);
}
