/** The only door to processes: starts one command, keeps it within its limits, and ends all that it started. */
import { type ChildProcess, spawn as nodeSpawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, statfsSync, writeFileSync } from 'node:fs';
import { type Issue, StepspawnError } from '../errors.ts';
import type { ResolvedLimits } from '../limits.ts';
import type { ExitStatus } from '../task.ts';
import { coverInherited } from './descriptors.ts';
import { openFifo, takeFifo } from './fifo.ts';
import { keepHeadAndTail, stderrWriter } from './kept-output.ts';
import { processTree } from './processes.ts';
import { type ChildUser, diskError, type Scratch } from './scratch.ts';
import { checkStart, type Startable } from './start-checks.ts';

export type StopCause = 'timed_out' | 'cancelled' | 'output_limit' | 'silent' | 'interrupted';

export interface Start extends Startable {
  readonly stdin: string | null;
  readonly limits: ResolvedLimits;
  readonly scratch: Scratch;
  /** user that the child runs as; ours when absent */
  readonly user?: ChildUser | undefined;
  /** where spare named pipes are kept */
  readonly fifoRoot: string;
  /** `NAME=value` in the child's environment by which its descendants are found */
  readonly mark: string;
  /** aborted with the reason `cancelled` or `interrupted` */
  readonly signal?: AbortSignal | undefined;
  /** called once the child runs */
  readonly onStart?: (() => void) | undefined;
  /** called as stdout grows, at most every 50 ms, with its size so far */
  readonly onGrowth?: ((bytes: number) => void) | undefined;
}

/** What the operating system reported, and the files that hold what the child printed. */
export interface Exit {
  readonly status: ExitStatus;
  /** why we ended it, null when it ended by itself */
  readonly cause: StopCause | null;
  readonly stdout: { readonly path: string; readonly size_bytes: number };
  readonly stderr: { readonly path: string; readonly size_bytes: number };
  readonly warnings: readonly string[];
}

export type Spawn = (start: Start) => Promise<Exit>;

const WATCH_MS = 50;
const SETTLE_MS = 100;
/** early looks at the tree, so that what leaves it soon after the start is known; then once a second */
const OBSERVE_AT_MS = [15, 50, 120, 250, 500];
const KILL_ROUNDS = 200;
/** scratch space that is never given to a child's output, so that the result can still be written: at most a tenth */
const RESERVED_BYTES = 16 * 1024 * 1024;

/**
 * Runs the command to its end and returns what happened; a failing child is a value. Throws SpawnFailed with one
 * issue per reason when it cannot be started, and StoreUnavailable when the scratch disk is full.
 */
export const spawn: Spawn = async (start) => {
  const checked = await checkStart(start);
  if ('issues' in checked) throw spawnFailed(checked.issues);
  const files = await openFiles(start);
  const release = holdSignals();
  try {
    if (start.user) await start.scratch.giveTo(start.user);
    const child = await startChild(start, checked.program, files);
    start.onStart?.();
    return await supervise(start, child, files);
  } finally {
    release();
    files.close();
  }
};

interface Files {
  readonly stdinFd: number;
  readonly stdoutFd: number;
  readonly stdoutPath: string;
  readonly stderrPath: string;
  readonly stderrFd: number;
  readonly fifo: ReturnType<typeof openFifo>;
  readonly close: () => void;
}

async function openFiles({ scratch, stdin, fifoRoot }: Start): Promise<Files> {
  const opened: number[] = [];
  const close = (): void => {
    for (const fd of opened.splice(0)) closeSync(fd);
  };
  const create = (name: string): number => {
    const fd = openSync(scratch.file(name), 'ax+', 0o600);
    opened.push(fd);
    return fd;
  };
  try {
    const stdinFd = openSync(stdin === null ? '/dev/null' : await scratch.write('stdin', stdin), 'r');
    opened.push(stdinFd);
    const stdoutFd = create('stdout');
    const stderrFd = create('stderr');
    await takeFifo(fifoRoot, scratch.file('stderr.fifo'));
    const fifo = openFifo(scratch.file('stderr.fifo'));
    return {
      stdinFd,
      stdoutFd,
      stderrFd,
      fifo,
      close,
      stdoutPath: scratch.file('stdout'),
      stderrPath: scratch.file('stderr'),
    };
  } catch (error) {
    close();
    throw diskError(error, scratch.dir);
  }
}

async function startChild(start: Start, program: string, files: Files): Promise<ChildProcess> {
  try {
    const child = nodeSpawn(program, start.argv.slice(1), {
      argv0: start.argv[0],
      cwd: start.cwd,
      env: { ...start.env },
      detached: true,
      ...start.user,
      stdio: [files.stdinFd, files.stdoutFd, files.fifo.writeFd, ...coverInherited()],
    });
    preferAsOomVictim(child.pid);
    await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
    return child;
  } catch (error) {
    files.fifo.reader.destroy();
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
    const message =
      code === 'E2BIG'
        ? 'arguments and environment together are over the limit of this system; pass the largest by stdin instead'
        : `program ${program} could not be started: ${code}`;
    throw spawnFailed([{ code, path: start.origin.argv(0), message, severity: 'error' }], error);
  } finally {
    closeSync(files.fifo.writeFd);
  }
}

/** Where memory runs out, what the child started is killed before us; it inherits this. */
function preferAsOomVictim(pid: number | undefined): void {
  try {
    if (pid !== undefined) writeFileSync(`/proc/${pid}/oom_score_adj`, '500');
  } catch {
    // no /proc, or gone already
  }
}

async function supervise(start: Start, child: ChildProcess, files: Files): Promise<Exit> {
  const { limits, signal } = start;
  const tree = processTree(child.pid!, { mark: start.mark, dir: start.scratch.dir });
  const warnings: string[] = [];
  const stdoutLimit = Math.min(limits.stdout_bytes, freeBytes(start.scratch.dir));
  let cause: StopCause | null = null;
  let status: ExitStatus | undefined;
  let stdoutBytes = 0;
  let shrunk = false;
  let lastOutput = performance.now();
  let stopping: Promise<unknown> | undefined;
  let giveUp: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    giveUp = resolve;
  });

  const exited = new Promise<void>((resolve) => {
    child.once('exit', (code, name) => {
      status = { code, signal: name };
      resolve();
    });
  });
  const stop = (why: StopCause): void => {
    if (cause !== null || status !== undefined) return;
    cause = why;
    stopping = endTree(tree, limits.grace_secs * 1000).then(() => setTimeout(giveUp, SETTLE_MS));
  };
  const stderr = stderrWriter(files.stderrFd, limits.stderr_bytes, () => stop('output_limit'));
  const drained = drain(files.fifo.reader, (chunk) => {
    lastOutput = performance.now();
    stderr.write(chunk);
  });
  const watch = (): void => {
    const size = fstatSync(files.stdoutFd).size;
    if (size !== stdoutBytes) {
      shrunk ||= size < stdoutBytes;
      stdoutBytes = size;
      lastOutput = performance.now();
      start.onGrowth?.(size);
    }
    if (size > stdoutLimit) stop('output_limit');
    else if (limits.silence_secs !== null && performance.now() - lastOutput > limits.silence_secs * 1000)
      stop('silent');
  };

  const watcher = setInterval(watch, WATCH_MS);
  const observers = OBSERVE_AT_MS.map((ms) => setTimeout(tree.observe, ms));
  const observer = setInterval(tree.observe, 1000);
  const timer = setTimeout(() => stop('timed_out'), Math.min(limits.timeout_secs * 1000, 2 ** 31 - 1));
  const onAbort = (): void => stop(signal?.reason === 'cancelled' ? 'cancelled' : 'interrupted');
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    await Promise.race([exited, ended]);
    clearTimeout(timer);
    await stopping;
    if (!(await endLeftovers(tree, limits.grace_secs * 1000)))
      warnings.push('a process of this attempt could not be ended');
  } finally {
    clearTimeout(timer);
    clearInterval(watcher);
    clearInterval(observer);
    for (const timeout of observers) clearTimeout(timeout);
    signal?.removeEventListener('abort', onAbort);
  }
  await Promise.race([drained, delay(SETTLE_MS)]);
  files.fifo.reader.destroy();
  watch();
  const size = keepHeadAndTail(files.stdoutFd, stdoutLimit);
  if (shrunk)
    warnings.push(
      'stdout was emptied while the child ran, as `> /dev/stdout` does; write to it by number (>&1)',
    );
  if (cause === null && (size > stdoutLimit || stderr.overflowed())) cause = 'output_limit';
  return {
    status: status ?? { code: null, signal: null },
    cause,
    stdout: { path: files.stdoutPath, size_bytes: size },
    stderr: { path: files.stderrPath, size_bytes: stderr.finish() },
    warnings,
  };
}

type Tree = ReturnType<typeof processTree>;

/** SIGTERM to all, grace, then SIGKILL until none is left. */
async function endTree(tree: Tree, graceMs: number): Promise<void> {
  tree.observe();
  tree.signal('SIGTERM');
  if (await waitUntilGone(tree, graceMs)) return;
  await killTree(tree);
}

/** After the child's own exit: what ends by itself at once may do so; the rest is ended. True when none is left. */
async function endLeftovers(tree: Tree, graceMs: number): Promise<boolean> {
  if (await waitUntilGone(tree, SETTLE_MS)) return true;
  tree.signal('SIGTERM');
  if (await waitUntilGone(tree, graceMs)) return true;
  return killTree(tree);
}

async function killTree(tree: Tree): Promise<boolean> {
  for (let round = 0; round < KILL_ROUNDS; round++) {
    tree.signal('SIGKILL');
    if (tree.observe().length === 0) return true;
    await delay(10);
  }
  return false;
}

async function waitUntilGone(tree: Tree, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (let pause = 2; ; pause = Math.min(pause * 2, 50)) {
    if (tree.observe().length === 0) return true;
    if (performance.now() >= end) return false;
    await delay(pause);
  }
}

function drain(reader: Files['fifo']['reader'], onChunk: (chunk: Buffer) => void): Promise<void> {
  reader.on('data', onChunk);
  return new Promise((resolve) => reader.once('end', resolve).once('error', resolve).once('close', resolve));
}

function freeBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  const free = bavail * bsize;
  return Math.floor(free - Math.min(RESERVED_BYTES, free / 10));
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function spawnFailed(issues: readonly Issue[], cause?: unknown): StepspawnError {
  const text = issues.map((issue) => issue.message).join('; ');
  return new StepspawnError('SpawnFailed', `spawn failed: ${text}`, { issues, cause });
}

const HELD: readonly NodeJS.Signals[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];
const ignore = (): void => undefined;
let holders = 0;

/** While a child runs, a signal that it sends us does not end us; entries add listeners of their own. */
function holdSignals(): () => void {
  if (holders++ === 0) for (const name of HELD) process.on(name, ignore);
  return () => {
    if (--holders === 0) for (const name of HELD) process.off(name, ignore);
  };
}
