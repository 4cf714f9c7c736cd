/** 1 GiB of text on stdout to the folder store, against a pipe into a file; and the memory that it takes. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interleave, type Measured, median, spread } from './measure.ts';
import { bundled, shipped } from './support/built.ts';
import type { MeasuredAttempt } from './support/invoke.ts';
import { runScript } from './support/processes.ts';
import { GIB, printing } from './support/text.ts';

const LEAST = 0.6;
const ALLOWED_MB = 80;

export async function measure(): Promise<readonly Measured[]> {
  return [...(await measureIn('/dev/shm', 'memory', 3)), ...(await measureIn(tmpdir(), 'disk', 1))];
}

/** Store, scratch and the floor's file lie below the same folder. */
async function measureIn(place: string, where: string, rounds: number): Promise<readonly Measured[]> {
  const dir = mkdtempSync(join(place, 'stepspawn-bench-'));
  try {
    const peaks: number[] = [];
    const sides = {
      floor: async () => pipeIntoFile(join(dir, 'floor')),
      ours: async () => {
        const { ms, peak_bytes } = await attempt(join(dir, 'ours'));
        peaks.push(peak_bytes / 1e6);
        return ms;
      },
    };
    const { ours = [], floor = [] } = await interleave(sides, { rounds, warmup: 0 });
    return [
      {
        what: `throughput of 1 GiB, ${where} / a pipe into a file`,
        ratio: median(floor) / median(ours),
        least: LEAST,
        detail: `${rates(ours)} / ${rates(floor)} MiB/s`,
      },
      {
        what: `resident with 1 GiB, ${where}, of ${ALLOWED_MB} MB`,
        ratio: Math.max(...peaks) / ALLOWED_MB,
        goal: 1,
        detail: `${Math.max(...peaks).toFixed(0)} MB`,
      },
    ];
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** The same program into `dd`, which writes what it reads and syncs it; each side of the pipe pinned to a core. */
function pipeIntoFile(path: string): number {
  const [, , script = ''] = printing(GIB);
  const begun = performance.now();
  const pipe = `taskset -c 0 sh -c "$0" | taskset -c 1 dd of="$1" bs=64k conv=fdatasync status=none`;
  execFileSync('sh', ['-c', pipe, script, path]);
  const ms = performance.now() - begun;
  if (statSync(path).size !== GIB) throw new Error(`the floor wrote ${statSync(path).size} bytes`);
  rmSync(path);
  return ms;
}

async function attempt(dir: string): Promise<MeasuredAttempt> {
  mkdirSync(dir);
  const template = JSON.stringify({ argv: printing(GIB) });
  const args = [shipped('spawn/index.mjs'), template];
  const settings = { STORE_URL: `file://${dir}/store`, SCRATCH_DIR: dir };
  const measured = await runScript<MeasuredAttempt>(bundled('support/invoke.ts'), args, settings);
  const { ok, stdout, value_ref } = measured.result;
  const stored = [stdout.key, value_ref?.key].map((key) => statSync(join(dir, 'store', key ?? '')).size);
  if (!ok || stdout.size_bytes !== GIB || stored[0] !== GIB || stored[1] !== value_ref?.size_bytes)
    throw new Error(`the attempt came to ${JSON.stringify({ ok, stdout, stored })}`.slice(0, 500));
  rmSync(dir, { recursive: true });
  return measured;
}

function rates(times: readonly number[]): string {
  const all = times.map((ms) => 1024 / (ms / 1000));
  return spread(all, 0);
}
