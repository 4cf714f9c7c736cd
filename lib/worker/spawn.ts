/** The only door to processes: starts one command, keeps it within its limits, and ends all that it started. */
import { closeSync, fchmodSync, fstatSync, openSync, statfsSync } from 'node:fs';
import { type Issue, StepspawnError } from '../errors.ts';
import type { ResolvedLimits } from '../limits.ts';
import type { ExitStatus } from '../task.ts';
import { openFifo, takeFifo } from './fifo.ts';
import { keepHeadAndTail, stderrWriter } from './kept-output.ts';
import { builtLauncher, launcherStarter } from './launcher.ts';
import { mayBeHeld, processTree } from './processes.ts';
import { type ChildUser, diskError, type Scratch } from './scratch.ts';
import { diagnoseStart, planStart, type Startable } from './start-checks.ts';
import { nodeStarter, type Running, type Starter, StartFailure } from './starter.ts';

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
  /** called as stdout grows, at most every 50 ms, with a path to read it from */
  readonly onGrowth?: ((path: string) => void) | undefined;
}

/** What the operating system reported, and the files that hold what the child printed. */
export interface Exit {
  readonly status: ExitStatus;
  /** why we ended it, null when it ended by itself */
  readonly cause: StopCause | null;
  readonly stdout: OutputFile & {
    /** known to be whole, as nothing has it open any more; only looked into where it is large */
    readonly isFinal?: boolean;
  };
  readonly stderr: OutputFile;
  readonly warnings: readonly string[];
}

export interface OutputFile {
  /** to read it from, until the scratch is removed; whatever became of its name */
  readonly path: string;
  /** its name in the scratch, where the child may have put something else */
  readonly name: string;
  readonly size_bytes: number;
}

export type Spawn = (start: Start) => Promise<Exit>;

const WATCH_MS = 50;
const SETTLE_MS = 100;
/** early looks at the tree, so that what leaves it soon after the start is known; then once a second */
const OBSERVE_AT_MS = [15, 50, 120, 250, 500];
const KILL_ROUNDS = 200;
/** scratch space that is never given to a child's output, so that the result can still be written: at most a tenth */
const RESERVED_BYTES = 16 * 1024 * 1024;
/** Worth a look at all processes, so that it need not be copied. */
const LARGE_BYTES = 16 * 1024 * 1024;
/** What may still be printed while a child is being ended. */
const LAST_WORDS_BYTES = 1024 * 1024;
const NOTHING = '/dev/null';

/**
 * Spawns by the launcher at a path, by default the one that was built with us, or, for null, by Node itself. Runs the command to its end and returns what happened; a
 * failing child is a value. Throws SpawnFailed with one issue per reason when it cannot be started, and StoreUnavailable
 * when the scratch disk is full.
 */
export function createSpawn(launcher: string | null = builtLauncher()): Spawn {
  const starter = launcher === null ? nodeStarter : launcherStarter(launcher);
  return async (start) => {
    const plan = planStart(start);
    if ('issues' in plan) throw spawnFailed(await diagnoseStart(start));
    const files = await openFiles(start, starter);
    // what was printed is read by descriptor: nothing that the child does to the names leads elsewhere
    start.scratch.atEnd(async () => files.close());
    const release = holdSignals();
    try {
      if (start.user) await start.scratch.giveTo(start.user);
      const child = await startChild(start, plan.programs, files, starter);
      const tree = processTree(child, { mark: start.mark, dir: start.scratch.dir });
      try {
        start.onStart?.();
        return await supervise(start, { child, tree, files });
      } catch (error) {
        await killTree(tree);
        throw error;
      }
    } finally {
      release();
      files.fifo.close();
    }
  };
}

interface Files {
  readonly stdin: string;
  readonly stdout: string;
  readonly stdoutFd: number;
  /** bytes that stdout may have */
  readonly stdoutLimit: number;
  /** the file for stderr to read from, or nothing when none was made */
  readonly stderr: () => string;
  /** descriptor of the file for stderr, made when first asked for */
  readonly stderrFd: () => number;
  readonly fifoPath: string;
  readonly fifo: ReturnType<typeof openFifo>;
  readonly close: () => void;
}

async function openFiles(
  { scratch, stdin, fifoRoot, limits }: Start,
  { makeFifos }: Starter,
): Promise<Files> {
  const opened: number[] = [];
  const close = (): void => {
    for (const fd of opened.splice(0)) closeSync(fd);
  };
  const create = (path: string): number => {
    const fd = openSync(path, 'ax+', 0o600);
    opened.push(fd);
    return fd;
  };
  let stderrFd: number | undefined;
  const [stdout, stderr, fifoPath] = ['stdout', 'stderr', 'stderr.fifo'].map(scratch.file) as [
    string,
    string,
    string,
  ];
  try {
    const stdinPath = stdin === null ? NOTHING : await scratch.write('stdin', stdin);
    const stdoutFd = create(stdout);
    await takeFifo(fifoRoot, fifoPath, makeFifos);
    return {
      stdin: stdinPath,
      stdout,
      stderr: () => (stderrFd === undefined ? NOTHING : byDescriptor(stderrFd)),
      stdoutFd,
      stdoutLimit: Math.min(limits.stdout_bytes, freeBytes(scratch.dir)),
      stderrFd: () => {
        stderrFd ??= create(stderr);
        return stderrFd;
      },
      fifoPath,
      fifo: openFifo(fifoPath),
      close,
    };
  } catch (error) {
    close();
    throw diskError(error, scratch.dir);
  }
}

/** A path that leads to the open file, whatever became of its name. */
function byDescriptor(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

async function startChild(
  start: Start,
  programs: readonly string[],
  files: Files,
  starter: Starter,
): Promise<Running> {
  const { argv, env, cwd, user } = start;
  const { stdin, stdout, fifoPath, fifo } = files;
  try {
    return await starter.start({ programs, argv, env, cwd, user, stdin, stdout, stderr: fifoPath });
  } catch (error) {
    if (!(error instanceof StartFailure)) throw error;
    const issues = await diagnoseStart(start);
    throw spawnFailed(issues.length > 0 ? issues : [refusal(start, error)], error);
  } finally {
    fifo.closeWriter();
  }
}

/** What only the start itself brought to light. */
function refusal({ argv, cwd, origin }: Start, { code, stage }: StartFailure): Issue {
  if (stage === 'cwd') {
    const message = `the working directory '${cwd}' cannot be entered: ${code}`;
    return { code, path: origin.cwd, message, severity: 'error' };
  }
  const message =
    code === 'E2BIG'
      ? 'arguments and environment together are over the limit of this system; pass the largest by stdin instead'
      : `program ${argv[0]} could not be started: ${code}`;
  return { code, path: origin.argv(0), message, severity: 'error' };
}

async function supervise(
  start: Start,
  { child, tree, files }: { readonly child: Running; readonly tree: Tree; readonly files: Files },
): Promise<Exit> {
  const { limits, signal } = start;
  const { stdoutLimit } = files;
  const stdout = byDescriptor(files.stdoutFd);
  const warnings: string[] = [];
  /** beyond this there is no grace any more */
  let lastBytes = Number.POSITIVE_INFINITY;
  let cause: StopCause | null = null;
  let status: ExitStatus | undefined;
  let stdoutBytes = 0;
  let shrunk = false;
  let allEnded = false;
  let lastOutput = performance.now();
  let stopping: Promise<unknown> | undefined;
  let giveUp: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    giveUp = resolve;
  });

  const allowLastWords = (): void => {
    lastBytes = Math.min(lastBytes, Math.max(stdoutLimit, stdoutBytes) + LAST_WORDS_BYTES);
  };
  const exited = child.exited.then((known) => {
    status = known;
    allowLastWords();
  });
  const stop = (why: StopCause): void => {
    if (cause !== null || status !== undefined) return;
    cause = why;
    allowLastWords();
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
      start.onGrowth?.(stdout);
    }
    if (size > lastBytes) tree.signal('SIGKILL');
    else if (size > stdoutLimit) stop('output_limit');
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
    allEnded = await endLeftovers(tree, limits.grace_secs * 1000);
    if (!allEnded) warnings.push('a process of this attempt could not be ended');
  } finally {
    clearTimeout(timer);
    clearInterval(watcher);
    clearInterval(observer);
    for (const timeout of observers) clearTimeout(timeout);
    signal?.removeEventListener('abort', onAbort);
  }
  await Promise.race([drained, delay(SETTLE_MS)]);
  watch();
  keepReadable(files.stdoutFd);
  const size = keepHeadAndTail(files.stdoutFd, stdoutLimit);
  if (shrunk)
    warnings.push(
      'stdout was emptied while the child ran, as `> /dev/stdout` does; write to it by number (>&1)',
    );
  if (cause === null && (size > stdoutLimit || stderr.overflowed())) cause = 'output_limit';
  return {
    status: status ?? { code: null, signal: null },
    cause,
    stdout: {
      path: stdout,
      name: files.stdout,
      size_bytes: size,
      isFinal: allEnded && size >= LARGE_BYTES && !mayBeHeld(start.scratch.dir),
    },
    stderr: { size_bytes: stderr.finish(), path: files.stderr(), name: start.scratch.file('stderr') },
    warnings,
  };
}

/** A child of our user may have taken our rights from its stdout. What it gave to others stays to be seen. */
function keepReadable(fd: number): void {
  const { mode } = fstatSync(fd);
  if ((mode & 0o600) === 0o600) return;
  try {
    fchmodSync(fd, (mode & 0o777) | 0o600);
  } catch {
    // it is another user's, and we are root
  }
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
