/**
 * Functions as Lambda runs them, each in a process that asks a Runtime API for events: cold starts of the bundles
 * against a handler that does nothing, and warm invocations against one that spawns. Results go to a local S3 sink.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Box, lambdaFunction } from '../test/support/runtime-api.ts';
import { compare, type Measured } from './measure.ts';
import { bundled, shipped } from './support/built.ts';
import { freePort, startServer } from './support/processes.ts';

const peer = (name: string): string => join(import.meta.dirname, 'peers', name);
const folder = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
const scratch = join(folder, 'scratch');
mkdirSync(scratch);

export async function measure(): Promise<readonly Measured[]> {
  const port = await freePort();
  const sink = await startServer([process.execPath, bundled('support/s3-sink.ts'), `${port}`], port);
  const endpoint = `http://127.0.0.1:${port}`;
  try {
    return [...(await cold(endpoint)), ...(await warm(endpoint))];
  } finally {
    await sink.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const ROUNDS = 11;

async function cold(endpoint: string): Promise<Measured[]> {
  const at = (handler: string) => start(handler, endpoint);
  const [spawns, validates, bare, eager] = [
    at(shipped('spawn/index.mjs')),
    at(shipped('validate/index.mjs')),
    at(peer('bare.mjs')),
    at(bundled('peers/eager-s3.ts')),
  ];
  const ready = (of: Starting) => async () => (await of(event())).ready;
  const first =
    (of: Starting, sent: () => unknown = event) =>
    async () =>
      (await of(sent())).first;
  const contest = (what: string, goal: number, ours: () => Promise<number>, floor: () => Promise<number>) =>
    compare({ what, goal, ours, floor, rounds: ROUNDS });
  return [
    await contest('spawn, cold: ready against a bare handler', 1.3, ready(spawns), ready(bare)),
    await contest('spawn, cold: first result against a bare handler', 2, first(spawns), first(bare)),
    await contest('spawn, cold: first result against an eager SDK', 0.5, first(spawns), first(eager)),
    await contest(
      'validate, cold: first result against a bare handler',
      1.2,
      first(validates, document),
      first(bare),
    ),
  ];
}

async function warm(endpoint: string): Promise<Measured[]> {
  const rows: Measured[] = [];
  for (const [heap, goal] of [
    [0, 0.75],
    [100, 0.3],
  ] as const) {
    const ours = lambdaFunction((api) => launch(shipped('spawn/index.mjs'), api, endpoint, heap));
    const naive = lambdaFunction((api) => launch(peer('naive-spawn.mjs'), api, endpoint, heap));
    const invoke = (of: typeof ours) => async () => {
      const { payload, error_type, ms } = await of.invoke(event());
      if (error_type !== null) throw new Error(JSON.stringify(payload));
      return ms;
    };
    rows.push(
      await compare({
        what: `spawn, warm${heap > 0 ? `, ${heap} MB more live heap` : ''}: against a handler that spawns and stores nothing`,
        goal,
        ours: invoke(ours),
        floor: invoke(naive),
        rounds: 101,
      }),
    );
    await Promise.all([ours.stop(), naive.stop()]);
  }
  return rows;
}

type Starting = (event: unknown) => Promise<{ readonly ready: number; readonly first: number }>;

function start(handler: string, endpoint: string): Starting {
  return async (sent) => {
    const lambda = lambdaFunction((api) => launch(handler, api, endpoint, 0));
    try {
      const { ms, environment, payload, error_type } = await lambda.invoke(sent);
      if (error_type !== null) throw new Error(JSON.stringify(payload));
      return { ready: environment.initMs() ?? Number.NaN, first: ms };
    } finally {
      await lambda.stop();
    }
  };
}

function launch(handler: string, api: string, endpoint: string, heap_mb: number): Box {
  const preload = heap_mb > 0 ? ['--import', peer('heap.mjs')] : [];
  const child = spawn(process.execPath, [...preload, peer('runtime-client.mjs'), handler], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: {
      PATH: process.env.PATH,
      AWS_LAMBDA_RUNTIME_API: api,
      AWS_ENDPOINT_URL_S3: endpoint,
      AWS_REGION: 'us-east-1',
      AWS_ACCESS_KEY_ID: 'bench',
      AWS_SECRET_ACCESS_KEY: 'bench',
      STORE_URL: 's3://bench/pre',
      SCRATCH_DIR: scratch,
      HEAP_MB: String(heap_mb),
      NODE_COMPILE_CACHE: join(folder, 'compiled'),
    },
  });
  const ended = once(child, 'exit').then(([code, signal]) => String(signal ?? code));
  return {
    id: String(child.pid),
    ended,
    log: () => '',
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

let made = 0;
const BLUEPRINT = {
  id: 'bench',
  flow: { kind: 'seq', children: [] },
  agents: [{ name: 'w', kind: 'subprocess', runner: { backend: 'subprocess', template: 'cat' } }],
  subprocesses: [{ name: 'cat', argv: ['cat'], stdin: '{prompt}' }],
};

function event() {
  return { task_id: `T-${process.pid}-${made++}`, agent: 'w', blueprint: BLUEPRINT, in: 'x'.repeat(1024) };
}

function document() {
  return { blueprint: BLUEPRINT };
}
