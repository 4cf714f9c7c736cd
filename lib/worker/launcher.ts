/**
 * Our side of launcher/launcher.c: a small resident process that starts children, so that a start costs the same however
 * much memory we have. It is started when first needed, replaced when somebody kills it, and ends when we do.
 */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import { fileURLToPath } from 'node:url';
import { getSystemErrorName } from 'node:util';
import type { ExitStatus } from '../task.ts';
import { startTime } from './processes.ts';
import type { ChildUser } from './scratch.ts';
import { codeOf } from './start-checks.ts';
import { nodeStarter, type Running, type Starter, StartFailure, type StartStage } from './starter.ts';

/** Of what is said on the channel; launcher.c ends at once when told another one. */
const VERSION = '1';
const CHANNEL = 3;
const REQUEST = { start: 1, makeFifos: 2 } as const;
const REQUEST_BYTES = 36;
/** of all strings of a request; launcher.c takes 64 MiB */
const MAX_CHARACTERS = 16 * 1024 * 1024;
const REPORT = { hello: 1, started: 2, refused: 3, made: 4, ended: 5, lost: 6 } as const;
const REPORT_BYTES = 24;
const STAGES: readonly StartStage[] = ['program', 'fork', 'files', 'cwd', 'user', 'program'];
const NO_USER = 2 ** 32 - 1;
/** launchers that may be killed in turn before one has done what was asked */
const TRIES = 5;
/** exit code of one that the system gave too little */
const TRY_LATER = 75;
const PULSE_MS = 1000;
/** after so many, a process that is not there any more counts as ended, though nobody told its end */
const UNTOLD_PULSES = 5;
const LOOK_MS = 50;
const SETTLE_MS = 200;
const UNKNOWN: ExitStatus = { code: null, signal: null };
/** more than Linux ever gives */
const NO_PID = 2 ** 30;
/** Why Node cannot start the launcher just now; anything else stays so. */
const PASSING = new Set(['EAGAIN', 'EMFILE', 'ENFILE', 'ENOMEM']);

interface Request {
  readonly kind: number;
  /** start: cwd and the first three descriptors, where the program may be, argv, env; makeFifos: the paths */
  readonly lists: readonly [
    paths: readonly string[],
    programs: readonly string[],
    argv: readonly string[],
    env: readonly string[],
  ];
  readonly user?: ChildUser | undefined;
}

interface Report {
  readonly kind: number;
  readonly id: number;
  readonly pid: number;
  readonly code: number;
  readonly since: number;
}

/** `not done`: the launcher died before it did anything about it; `lost`: nobody can tell. */
type Answer = Done | StartFailure | 'not done';
type Done = Running | 'made' | 'lost';

interface Pending {
  readonly settle: (answer: Answer) => void;
  readonly frame: Buffer;
  readonly asked: number;
  /** whether all of it may have been read */
  sent: boolean;
}

interface Launcher {
  readonly ask: (request: Request) => Promise<Answer>;
  /** whether it takes requests */
  readonly works: () => boolean;
}

/** Where `npm run build` puts the launcher: beside the bundle; null where there is none. */
export function builtLauncher(): string | null {
  const path = fileURLToPath(new URL('launcher', import.meta.url));
  return existsSync(path) ? path : null;
}

/** Starts by the launcher at `path`, and by Node itself where that one cannot run. */
export function launcherStarter(path: string): Starter {
  let current: Launcher | undefined;
  let usable = true;
  const onBroken = (error: unknown): void => {
    usable = PASSING.has(codeOf(error));
  };
  const open = (): Launcher => {
    try {
      return openLauncher(path, onBroken);
    } catch (error) {
      onBroken(error);
      return NO_LAUNCHER;
    }
  };
  /** What the launcher did, or null when none could be brought to do it. */
  const ask = async (request: Request): Promise<Done | null> => {
    for (let tries = 0; usable && tries < TRIES; tries++) {
      if (!current?.works()) current = open();
      const answer = await current.ask(request);
      if (answer instanceof StartFailure) throw answer;
      if (answer !== 'not done') return answer;
    }
    return null;
  };
  return {
    start: async (launch) => {
      const { programs, argv, cwd, stdin, stdout, stderr, user } = launch;
      const env = Object.entries(launch.env).map(([name, value]) => `${name}=${value}`);
      const lists = [[cwd, stdin, stdout, stderr], programs, argv, env] as const;
      const done = await ask({ kind: REQUEST.start, lists, user });
      if (done === 'lost') return perhapsRan();
      return done === null || done === 'made' ? nodeStarter.start(launch) : done;
    },
    makeFifos: async (paths) => {
      const request: Request = { kind: REQUEST.makeFifos, lists: [paths, [], [], []] };
      let done = await ask(request);
      while (done === 'lost') done = await ask(request);
      if (done === null) await nodeStarter.makeFifos(paths);
    },
  };
}

const NO_LAUNCHER: Launcher = { works: () => false, ask: async () => 'not done' };

/** Starts a launcher; `onBroken` is told why it cannot run. */
function openLauncher(path: string, onBroken: (error: unknown) => void): Launcher {
  const pending = new Map<number, Pending>();
  const running = new Map<number, { readonly end: (status: ExitStatus) => void; missed: number }>();
  let works = true;
  let greeted = false;
  let starter: number | undefined;
  let requests = 0;
  let pulse: NodeJS.Timeout | undefined;
  const guardian = spawn(path, [VERSION], {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
  });
  guardian.once('error', onBroken);
  // there is none when we have too many descriptors open
  const channel = guardian.stdio?.[CHANNEL] as Socket | undefined;
  if (!channel) return NO_LAUNCHER;

  const send = (waiting: Pending): void => {
    channel.write(waiting.frame, (error) => {
      waiting.sent = !error;
    });
  };
  const settle = (id: number, answer: Answer): void => {
    pending.get(id)?.settle(answer);
    pending.delete(id);
  };
  const end = (pid: number, status: ExitStatus): void => {
    running.get(pid)?.end(status);
    running.delete(pid);
  };
  /** Wakes it in case that somebody stopped it, and sees whether an end was missed. */
  const look = (): void => {
    if (guardian.signalCode === null) wake(guardian.pid);
    wake(starter);
    for (const [pid, each] of running) {
      each.missed = startTime(pid) === undefined ? each.missed + 1 : 0;
      if (each.missed > UNTOLD_PULSES) end(pid, UNKNOWN);
    }
  };
  /** We wait for it only while it has something to do. */
  const mind = (): void => {
    const busy = pending.size + running.size > 0;
    if (busy && !pulse) {
      channel.ref();
      pulse = setInterval(look, PULSE_MS).unref();
    } else if (!busy && pulse) {
      channel.unref();
      clearInterval(pulse);
      pulse = undefined;
    }
    if (!busy && !works) channel.destroy();
  };
  /** Whether nothing else of ours runs or is about to. */
  const isAlone = (root: number): boolean =>
    pending.size === 0 && [...running.keys()].every((pid) => pid === root);
  const handlers: Readonly<Record<number, (report: Report) => void>> = {
    [REPORT.hello]: ({ pid }) => {
      greeted = true;
      starter = pid;
      for (const waiting of pending.values()) send(waiting);
    },
    [REPORT.started]: ({ id, pid, since }) => {
      const asked = pending.get(id)?.asked;
      if (asked === undefined) return;
      const exited = new Promise<ExitStatus>((resolve) => running.set(pid, { end: resolve, missed: 0 }));
      const isStray: Running['isStray'] = ({ pid: other, ppid }) =>
        ppid === starter && !running.has(other) && isAlone(pid);
      settle(id, { root: pid, since, asked, exited, isStray });
    },
    [REPORT.refused]: ({ id, pid: stage, code }) =>
      settle(id, new StartFailure(getSystemErrorName(-code), STAGES[stage] ?? 'program')),
    [REPORT.made]: ({ id }) => settle(id, 'made'),
    [REPORT.ended]: ({ id: signal, pid, code }) =>
      end(pid, signal === 0 ? { code, signal: null } : { code: null, signal: nameOf(signal) }),
    [REPORT.lost]: () => {
      works = false;
      starter = undefined;
      for (const id of pending.keys()) settle(id, 'not done');
    },
  };
  const read = reportReader((report) => handlers[report.kind]?.(report));
  channel.on('data', (chunk) => {
    read(chunk);
    mind();
  });
  guardian.once('error', () => channel.destroy());
  guardian.once('exit', (code) => {
    works = false;
    // what kills it tells nothing about the next one, nor does a lack of processes or memory
    if (code && code !== TRY_LATER && !greeted) onBroken(new Error(`the launcher ended with code ${code}`));
    mind();
  });
  channel.on('error', () => undefined);
  channel.once('close', () => {
    works = false;
    for (const [id, { sent }] of pending) settle(id, sent ? 'lost' : 'not done');
    for (const [pid, { end: tell }] of running) void gone(pid).then(() => tell(UNKNOWN));
    running.clear();
    mind();
  });
  guardian.unref();
  channel.unref();

  return {
    works: () => works,
    ask: (request) =>
      new Promise((settled) => {
        const frame = frameOf(++requests, request);
        const waiting = { settle: settled, frame, asked: performance.now(), sent: false };
        pending.set(requests, waiting);
        mind();
        // not before it has greeted: then what was sent to one that cannot run was certainly not done
        if (greeted) send(waiting);
      }),
  };
}

function frameOf(id: number, { kind, lists, user }: Request): Buffer {
  const strings = lists.flat();
  if (strings.some((text) => text.includes('\0'))) throw new StartFailure('ERR_INVALID_ARG_VALUE', 'program');
  if (strings.reduce((sum, { length }) => sum + length, 0) > MAX_CHARACTERS)
    throw new StartFailure('E2BIG', 'program');
  const text = `${strings.join('\0')}\0`;
  const bytes = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(REQUEST_BYTES + bytes);
  const counts = lists.map(({ length }) => length);
  const header = [bytes, id, kind, user?.uid ?? NO_USER, user?.gid ?? NO_USER, ...counts];
  for (const [i, value] of header.entries()) frame.writeUInt32LE(value, i * 4);
  frame.write(text, REQUEST_BYTES);
  return frame;
}

function reportReader(take: (report: Report) => void): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0);
  return (chunk) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    for (; at + REPORT_BYTES <= bytes.length; at += REPORT_BYTES) {
      const [kind, id, pid, code] = [0, 4, 8, 12].map((offset) => bytes.readInt32LE(at + offset));
      take({ kind: kind!, id: id!, pid: pid!, code: code!, since: Number(bytes.readBigInt64LE(at + 16)) });
    }
    rest = bytes.subarray(at);
  };
}

/** Until the process has ended that nobody can wait for any more. */
async function gone(pid: number): Promise<void> {
  const start = startTime(pid);
  while (start !== undefined && startTime(pid) === start)
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
}

/** In place of a process that may have run: no pid, so that only the attempt's trace leads to what is left of it. */
function perhapsRan(): Running {
  const exited = new Promise<ExitStatus>((resolve) => setTimeout(() => resolve(UNKNOWN), SETTLE_MS));
  return { root: NO_PID, since: 0, asked: 0, exited };
}

function wake(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(pid, 'SIGCONT');
  } catch {
    // gone, as its end will tell
  }
}

const SIGNALS = new Map(
  Object.entries(constants.signals)
    .reverse()
    .map(([name, number]) => [number, name]),
);

function nameOf(signal: number): string {
  return SIGNALS.get(signal) ?? `signal ${signal}`;
}
