/**
 * A process that runs `cat` in several ways: `node spawn-process.ts LAUNCHER HEAP_MB`. For each line `WAY COUNT` on stdin it
 * prints `{"ms", "cpu_ms"}` of one run, CPU of all processes included.
 */
import { spawn as nodeSpawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { prepareChild } from '../../lib/child.ts';
import { DEFAULT_LIMITS } from '../../lib/limits.ts';
import type { AttemptPorts } from '../../lib/ports.ts';
import { prepare } from '../../lib/prepare.ts';
import { NO_SECRETS } from '../../lib/secrets.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { openScratch, type Scratch } from '../../lib/worker/scratch.ts';
import { createSpawn } from '../../lib/worker/spawn.ts';
import { oneStep } from '../../test/support/documents.ts';

const [launcher = 'none', heap = '0'] = process.argv.slice(2);
const root = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
const ENV = { PATH: '/usr/bin:/bin' };
const TEXT = 'x'.repeat(1024);
const FINAL = '{"type":"final","ok":true,"content":{"kind":"inline","value":1}}';
const BYTES_PER_ITEM = 64;
const TICK_MS = 10;

const ballast = Array.from({ length: (Number(heap) * 1e6) / BYTES_PER_ITEM }, (_, i) => ({
  i,
  text: `${i}`,
}));
const scratch = await openScratch({ root });
const ports: AttemptPorts = {
  store: folderStore(join(root, 'store')),
  scratch,
  spawn: createSpawn(launcher === 'none' ? null : launcher),
  base_env: ENV,
  secrets: NO_SECRETS,
  default_cwd: null,
  host: null,
  cancel_poll: { first_ms: 1000, then_ms: 1000 },
};
let made = 0;

/** A run in a place of its own; removing it comes after what is measured. */
async function inPlace(run: (place: Scratch, mark: string) => Promise<void>): Promise<number> {
  const begun = performance.now();
  const mark = `MSE_TOKEN_NONCE=${process.pid}-${made++}`;
  const place = await scratch.make(mark);
  await run(place, mark);
  const ms = performance.now() - begun;
  await place.remove();
  return ms;
}

const nowhere = { argv: () => '', env: () => '', cwd: '' };

const WAYS: Record<string, () => Promise<number>> = {
  ours: () =>
    inPlace(async (place, mark) => {
      const [name = '', value = ''] = mark.split('=');
      const exit = await ports.spawn({
        argv: ['cat'],
        env: { ...ENV, [name]: value },
        cwd: place.work,
        origin: nowhere,
        stdin: TEXT,
        limits: DEFAULT_LIMITS,
        scratch: place,
        fifoRoot: scratch.dir,
        mark,
      });
      check(readFileSync(exit.stdout.path, 'utf8'), TEXT);
    }),
  stream: () =>
    inPlace(async (place, mark) => {
      const ready = await prepareChild(await stream, place, mark, ports);
      const { collected } = await ready.run(() => undefined);
      check(collected.outcome.ok, true);
    }),
  bare: async () => {
    const begun = performance.now();
    const child = nodeSpawn('cat', [], { env: ENV });
    let text = '';
    child.stdout.on('data', (chunk) => {
      text += chunk;
    });
    child.stderr.resume();
    child.stdin.end(TEXT);
    await new Promise((resolve) => child.once('close', resolve));
    check(text, TEXT);
    return performance.now() - begun;
  },
};

const stream = prepare(
  {
    task_id: 'T',
    attempt: 1,
    agent: 'w',
    in: FINAL,
    blueprint: oneStep({ argv: ['cat'], stdin: '{prompt}', stream_mode: 'ndjson_lines' }),
  },
  ports,
);

function check(found: unknown, expected: unknown): void {
  if (found !== expected) throw new Error(`expected ${expected}, found ${found}`);
}

/** Milliseconds of CPU of this process, of those that it has waited for, and of the launcher's. */
function cpu(pid: number | string = process.pid): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]!.split(' ');
    const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) * TICK_MS;
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').split(' ').filter(Boolean);
    return children.reduce((sum, child) => sum + cpu(child), own);
  } catch {
    // a child that was waited for in between
    return 0;
  }
}

for await (const line of createInterface(process.stdin)) {
  const [way = '', count = '1'] = line.split(' ');
  const times: number[] = [];
  const before = cpu();
  for (let i = 0; i < Number(count); i++) times.push(await WAYS[way]!());
  const ms = times.reduce((sum, each) => sum + each, 0) / times.length;
  process.stdout.write(`${JSON.stringify({ ms, cpu_ms: (cpu() - before) / times.length })}\n`);
}
check(ballast.length >= 0, true);
await scratch.close();
rmSync(root, { recursive: true });
