/** Seven children that misbehave, through the local server and through its peers: how many are dealt with rightly. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { runningAs } from '../test/support/processes.ts';
import type { Measured } from './measure.ts';
import { post, type Reply } from './support/http-client.ts';
import { type Server, startServers } from './support/servers.ts';

/** Every server has a time limit of 1 s, ours half a second of grace; some look only once a second. */
const ANSWERED_WITHIN_MS = 3000;
const FOUR_MIB = 4 * 1024 * 1024;
/** by this its processes are found */
const SLEEP = `20.0${process.pid}`;
const HEADER = `[ -z "$GATEWAY_INTERFACE" ] || printf 'content-type: text/plain\\r\\n\\r\\n'`;

interface Case {
  /** shell script */
  readonly program: string;
  readonly input?: string;
  /** the caller hangs up after this long */
  readonly leaves_after?: number;
  readonly succeeds: boolean;
  readonly prints?: string;
}

const big = `${'0123456789abcdef'.repeat(FOUR_MIB / 16)}`;

const CASES: Readonly<Record<string, Case>> = {
  'exit 3': { program: 'echo partial; exit 3', succeeds: false },
  slow: { program: `exec sleep ${SLEEP}`, succeeds: false },
  'orphan on stdout': { program: `sleep ${SLEEP} & echo done`, succeeds: true, prints: 'done\n' },
  'grandchild at the limit': { program: `sleep ${SLEEP} & wait`, succeeds: false },
  'caller gone': { program: `sleep ${SLEEP}; :`, leaves_after: 300, succeeds: false },
  '4 MiB echo': { program: `cat $BODY`, input: big, succeeds: true, prints: big },
  'unread stdin': { program: 'echo ok', input: big, succeeds: true, prints: 'ok\n' },
};

export async function measure(): Promise<readonly Measured[]> {
  const programs = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
  for (const [name, { program }] of Object.entries(CASES))
    writeFileSync(join(programs, fileOf(name)), `#!/bin/sh\n${HEADER}\n${program}\n`, { mode: 0o755 });
  symlinkSync('/bin/cat', join(programs, 'cat'));
  const servers = await startServers(programs, ['stepspawn', 'naive', 'lighttpd', 'webhook']);
  try {
    const rows: Measured[] = [];
    for (const server of servers) rows.push(await probe(server));
    return rows;
  } finally {
    for (const pid of leftovers()) process.kill(pid, 'SIGKILL');
    for (const server of servers) await server.stop();
    rmSync(programs, { recursive: true, force: true });
  }
}

function fileOf(name: string): string {
  return name.replaceAll(' ', '-');
}

async function probe(server: Server): Promise<Measured> {
  const wrong: string[] = [];
  for (const [name, given] of Object.entries(CASES)) {
    const faults = await faultsOf(server, name, given);
    if (faults.length > 0) wrong.push(`${name}: ${faults.join(', ')}`);
  }
  const count = Object.keys(CASES).length;
  return {
    what: `${server.name}: right, of ${count}`,
    ratio: count - wrong.length,
    ...(server.name === 'stepspawn' && { least: count }),
    detail: wrong.join('; '),
  };
}

async function faultsOf(server: Server, name: string, given: Case): Promise<string[]> {
  const begun = performance.now();
  const sent = post({
    ...server.request(fileOf(name), given.input ?? 'x'),
    ...(given.leaves_after !== undefined && { leaves_after: given.leaves_after }),
  });
  const reply = await Promise.race([sent, pause(ANSWERED_WITHIN_MS, 'late' as const)]);
  if (given.leaves_after !== undefined) await pause(begun + ANSWERED_WITHIN_MS - performance.now());
  const left = leftovers();
  for (const pid of left) process.kill(pid, 'SIGKILL');
  await Promise.race([sent, pause(ANSWERED_WITHIN_MS)]);
  const faults = given.leaves_after === undefined ? answerFaults(server, given, reply) : [];
  if (left.length > 0) faults.push('leaves it running');
  const next = await post(server.request('cat', 'next'));
  if (next?.status !== 200 || server.printed(next) !== 'next') faults.push('the next request fails');
  return faults;
}

function answerFaults(server: Server, { succeeds, prints }: Case, reply: Reply | null | 'late'): string[] {
  if (reply === 'late') return [`no answer within ${ANSWERED_WITHIN_MS / 1000} s`];
  if (reply === null) return ['the connection is cut'];
  const { status } = reply;
  if (server.succeeded(reply) !== succeeds)
    return [`answers ${status} as if it had ${succeeds ? 'failed' : 'succeeded'}`];
  if (prints === undefined) return [];
  const printed = server.printed(reply);
  return printed === prints || `${printed}\n` === prints
    ? []
    : [`returns ${printed.length} of ${prints.length} bytes`];
}

/** Processes of this probe that still run. */
function leftovers(): number[] {
  return runningAs('sleep', SLEEP).map(Number);
}
