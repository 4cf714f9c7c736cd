/** `cat` by HTTP, 1 KiB in and out: ours with every result stored, against servers that fork and store nothing. */
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { interleave, type Measured, median, spread } from './measure.ts';
import { type Load, loadOf, post } from './support/http-client.ts';
import { type Server, startServers } from './support/servers.ts';

const ROUNDS = 5;
const SLICE_MS = 450;
const BODY = 'abcdefghijklmnop'.repeat(64);

/**
 * The goals against of-watchdog, which does not run here: webhook stands for it. Where the goals were
 * measured of-watchdog did 562 / 794 requests/s at concurrency 1 / 8 where webhook did 528 / 970.
 */
const STAND_IN = 'webhook';
const OF_WATCHDOG = { 1: 562 / 528, 8: 794 / 970, 32: 794 / 970 } as const;
const GOALS = {
  1: { p50: 1.3 },
  8: { per_second: 1, p99: 0.9 },
  32: { per_second: 1.05, p99: 0.7 },
} as const satisfies Record<number, Partial<Load>>;
const NAIVE_AT_8 = 3;

export async function measure(): Promise<readonly Measured[]> {
  const programs = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
  symlinkSync('/bin/cat', join(programs, 'cat'));
  const servers = await startServers(programs, ['stepspawn', 'in memory', 'naive', 'lighttpd', 'webhook']);
  try {
    const rows: Measured[] = [];
    for (const concurrency of [1, 8, 32] as const) {
      const sides = servers.map((server) => [server.name, () => slice(server, concurrency)] as const);
      const loads = await interleave(Object.fromEntries(sides), { rounds: ROUNDS, warmup: 1 });
      rows.push(...rowsOf(loads, concurrency));
    }
    return rows;
  } finally {
    for (const server of servers) await server.stop();
    rmSync(programs, { recursive: true, force: true });
  }
}

let asked = 0;

function slice({ name, request, printed }: Server, concurrency: number): Promise<Load> {
  return loadOf(
    async (agent) => {
      const input = `${asked++} ${BODY}`;
      const reply = await post({ ...request('cat', input), agent });
      if (reply?.status !== 200 || printed(reply) !== input)
        throw new Error(`${name} answers ${reply?.status} with ${reply?.text.slice(0, 300)}`);
    },
    { concurrency, ms: SLICE_MS },
  );
}

type Loads = Readonly<Record<string, readonly Load[]>>;

function rowsOf(loads: Loads, concurrency: keyof typeof GOALS): Measured[] {
  const peers = Object.keys(loads).filter((name) => name !== 'stepspawn' && name !== 'in memory');
  const pairs: (readonly [string, string])[] = peers.map((peer) => ['stepspawn', peer]);
  if (peers.includes(STAND_IN)) pairs.push(['in memory', STAND_IN]);
  return pairs.flatMap(([ours, peer]) =>
    (['per_second', 'p50', 'p99'] as const).map((figure) => {
      const [left = [], right = []] = [ours, peer].map((name) => loads[name]?.map((load) => load[figure]));
      return {
        what: `${concurrency} at a time, ${figure}: ${ours} / ${peer}`,
        ratio: median(left) / median(right),
        ...goalOf(peer, concurrency, figure),
        detail: `${spread(left)} / ${spread(right)} ${figure === 'per_second' ? 'requests/s' : 'ms'}`,
      };
    }),
  );
}

function goalOf(peer: string, concurrency: keyof typeof GOALS, figure: keyof Load) {
  if (peer === 'naive') return concurrency === 8 && figure === 'per_second' ? { least: NAIVE_AT_8 } : {};
  const goal = (GOALS[concurrency] as Partial<Load>)[figure];
  if (peer !== STAND_IN || goal === undefined) return {};
  const factor = OF_WATCHDOG[concurrency];
  const rounded = (value: number): number => Math.round(value * 100) / 100;
  return figure === 'per_second' ? { least: rounded(goal * factor) } : { goal: rounded(goal / factor) };
}
