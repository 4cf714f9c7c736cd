/** Finds and signals every process that an attempt started, also those that left its process group. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

interface ProcessInfo {
  readonly pid: number;
  readonly ppid: number;
  readonly pgid: number;
  readonly session: number;
  readonly state: string;
  /** clock ticks since boot; with the pid it names a process for good */
  readonly start: number;
}

/** By what a process of an attempt is known that left its group, its session and its parents. */
export interface Trace {
  /** `NAME=value` in its environment */
  readonly mark: string;
  /** the attempt's private directory, in which it has a file open or works */
  readonly dir?: string | undefined;
}

export interface ProcessTree {
  /** Looks for members now, so that they stay known after their parents have gone; the live ones, without zombies. */
  readonly observe: () => readonly number[];
  /** Sends the signal to the group and to every member outside it; ESRCH and EPERM are ignored. */
  readonly signal: (name: NodeJS.Signals) => void;
}

/** A session leader that we started. */
export interface Root {
  /** its pid, session and group */
  readonly root: number;
  /** nothing of it began before, in clock ticks since boot */
  readonly since: number;
  /** nor before this, in milliseconds of `performance.now()` */
  readonly asked: number;
  /** whether a process that lost its parent can only be of this root, as nothing else runs beside it */
  readonly isStray?: (of: { readonly pid: number; readonly ppid: number }) => boolean;
}

/**
 * The tree under a root. Members are: its group, its session, their descendants, every process that bears the attempt's
 * trace, and orphans that can be of no other root.
 */
export function processTree({ root, since, asked, isStray }: Root, trace: Trace): ProcessTree {
  const bears = traceOf(trace);
  const known = new Map<number, number>();
  let groupMayExist = true;

  const observe = (): readonly number[] => {
    const all = (performance.now() - asked < YOUNG_MS && processesFrom(root)) || listProcesses();
    const live: number[] = [];
    const belongs = new Set<number>();
    let groupSeen = false;
    const children = new Map<number, ProcessInfo[]>();
    for (const info of all) {
      const siblings = children.get(info.ppid);
      if (siblings) siblings.push(info);
      else children.set(info.ppid, [info]);
    }
    const accept = (info: ProcessInfo): void => {
      if (belongs.has(info.pid) || info.start < since || info.pid === process.pid) return;
      belongs.add(info.pid);
      known.set(info.pid, info.start);
      if (info.state !== 'Z') live.push(info.pid);
      for (const child of children.get(info.pid) ?? []) accept(child);
    };
    for (const info of all) {
      const inGroup = groupMayExist && (info.pgid === root || info.session === root);
      groupSeen ||= inGroup;
      if (inGroup || known.get(info.pid) === info.start) accept(info);
      else if (info.start < since || info.pid === process.pid) continue;
      else if (isStray?.(info) || bears(info.pid)) accept(info);
    }
    groupMayExist &&= groupSeen;
    return live;
  };

  const signal = (name: NodeJS.Signals): void => {
    if (groupMayExist) send(-root, name);
    for (const pid of observe()) send(pid, name);
  };
  return { observe, signal };
}

/** Ends every process on this host that bears the trace: the orphans of a dead holder. */
export function endTraced(trace: Trace): void {
  const bears = traceOf(trace);
  for (const { pid } of listProcesses()) if (pid !== process.pid && bears(pid)) send(pid, 'SIGKILL');
}

/** Whether a process other than this one may have a file below the directory open, as far as can be seen. */
export function mayBeHeld(dir: string): boolean {
  const all = listProcesses();
  return all.length === 0 || all.some(({ pid }) => pid !== process.pid && isIn(pid, `${dir}/`));
}

/** When a process started, or undefined; also for one that has ended and waits to be reaped. */
export function processStart(pid: number): number | undefined {
  return readProcess(pid)?.start;
}

/** Start time of a live process in clock ticks since boot, or undefined when there is none or no /proc. */
export function startTime(pid: number): number | undefined {
  const info = readProcess(pid);
  return info && info.state !== 'Z' ? info.start : undefined;
}

/** This process as claims name it, or null where the system has no /proc. */
export function hostProcess(): {
  readonly boot_id: string;
  readonly pid: number;
  readonly start_time: number;
} | null {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    const boot_id = `${boot}/${readlinkSync('/proc/self/ns/pid')}`;
    const start_time = startTime(process.pid);
    return start_time === undefined ? null : { boot_id, pid: process.pid, start_time };
  } catch {
    return null;
  }
}

/** Whether the process that a claim names is still there. */
export function isAlive(host: { readonly pid: number; readonly start_time: number }): boolean {
  return startTime(host.pid) === host.start_time;
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
    if (name === 'SIGTERM') process.kill(pid, 'SIGCONT');
  } catch {
    // gone already, or not ours to signal
  }
}

function traceOf({ mark, dir }: Trace): (pid: number) => boolean {
  const needle = Buffer.from(`\0${mark}\0`);
  return (pid) => carries(pid, needle) || (dir !== undefined && isIn(pid, `${dir}/`));
}

function carries(pid: number, needle: Buffer): boolean {
  try {
    const environ = readFileSync(`/proc/${pid}/environ`);
    return environ.indexOf(needle) !== -1 || environ.indexOf(needle.subarray(1)) === 0;
  } catch {
    return false;
  }
}

/** Whether the process works below `dir` or has a file open there. */
function isIn(pid: number, dir: string): boolean {
  const places = ['cwd', ...readNames(`/proc/${pid}/fd`).map((fd) => `fd/${fd}`)];
  return places.some((place) => {
    try {
      return `${readlinkSync(`/proc/${pid}/${place}`)}/`.startsWith(dir);
    } catch {
      return false;
    }
  });
}

/** No system starts so many processes in this time that process ids come round to where they were. */
const YOUNG_MS = 100;
const FEW = 48;

/**
 * Every process that there is with the id of `first` or one that was given later, or undefined when these are not few:
 * to look for few by their ids is quicker than to read about all.
 */
function processesFrom(first: number): ProcessInfo[] | undefined {
  const last = lastProcess();
  if (last < first || last - first > FEW) return undefined;
  return Array.from({ length: last - first + 1 }, (_, i) => readProcess(first + i)).filter(
    (info) => info !== undefined,
  );
}

/** The id that was given last, or 0 where the system does not tell. */
function lastProcess(): number {
  try {
    return Number(readFileSync('/proc/loadavg', 'latin1').trim().split(' ').at(-1)) || 0;
  } catch {
    return 0;
  }
}

function listProcesses(): ProcessInfo[] {
  const found: ProcessInfo[] = [];
  for (const name of readNames('/proc')) {
    if (name.charCodeAt(0) > 0x39) continue;
    const info = readProcess(Number(name));
    if (info) found.push(info);
  }
  return found;
}

/** The names in a folder; none where it cannot be read. */
export function readNames(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function readProcess(pid: number): ProcessInfo | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return {
      pid,
      state: fields[0]!,
      ppid: Number(fields[1]),
      pgid: Number(fields[2]),
      session: Number(fields[3]),
      start: Number(fields[19]),
    };
  } catch {
    return undefined;
  }
}
