/** Starting processes and making named pipes: the port, and the way that Node itself has. */
import { execFile, spawn } from 'node:child_process';
import { closeSync, constants, existsSync, openSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import type { ExitStatus } from '../task.ts';
import { coverInherited } from './descriptors.ts';
import { processStart, type Root } from './processes.ts';
import type { ChildUser } from './scratch.ts';
import { codeOf, firstExecutable } from './start-checks.ts';

export interface Launch {
  /** absolute paths, of which the first that can be executed is taken */
  readonly programs: readonly string[];
  readonly argv: readonly string[];
  /** the whole environment */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** paths of what the process gets as its first three descriptors, to read, to append, and a named pipe to write */
  readonly stdin: string;
  readonly stdout: string;
  readonly stderr: string;
  readonly user?: ChildUser | undefined;
}

export interface Running extends Root {
  readonly exited: Promise<ExitStatus>;
}

export interface Starter {
  /**
   * Starts a session of its own, with the first three descriptors only and all signals as they are by default. Rejects
   * with StartFailure when nothing runs.
   */
  readonly start: (launch: Launch) => Promise<Running>;
  /** Makes named pipes with mode 0600, if they are not there already. */
  readonly makeFifos: (paths: readonly string[]) => Promise<void>;
}

/** What of a start did not work. */
export type StartStage = 'fork' | 'files' | 'cwd' | 'user' | 'program';

export class StartFailure extends Error {
  readonly code: string;
  readonly stage: StartStage;
  constructor(code: string, stage: StartStage, options?: ErrorOptions) {
    super(`${stage}: ${code}`, options);
    this.code = code;
    this.stage = stage;
  }
}

/** Forks our own process, which costs more the more memory it has. */
export const nodeStarter: Starter = {
  start: async (launch) => {
    const asked = performance.now();
    const opened: number[] = [];
    const open = (path: string, flags: number): number => {
      const fd = openSync(path, flags);
      opened.push(fd);
      return fd;
    };
    try {
      const program = await firstExecutable(launch.programs);
      if (program === undefined) throw Object.assign(new Error('no program'), { code: 'ENOENT' });
      const child = spawn(program, launch.argv.slice(1), {
        argv0: launch.argv[0],
        cwd: launch.cwd,
        env: { ...launch.env },
        detached: true,
        ...launch.user,
        stdio: [
          open(launch.stdin, constants.O_RDONLY),
          open(launch.stdout, constants.O_RDWR | constants.O_APPEND),
          open(launch.stderr, constants.O_WRONLY),
          ...coverInherited(),
        ],
      });
      const exited = new Promise<ExitStatus>((resolve) =>
        child.once('exit', (code, signal) => resolve({ code, signal })),
      );
      preferAsOomVictim(child.pid);
      await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject));
      const pid = child.pid!;
      return { root: pid, since: processStart(pid) ?? 0, asked, exited };
    } catch (error) {
      throw new StartFailure(codeOf(error), 'program', { cause: error });
    } finally {
      for (const fd of opened) closeSync(fd);
    }
  },
  makeFifos: async (paths) => {
    const missing = paths.filter((path) => !existsSync(path));
    if (missing.length > 0) await promisify(execFile)('mkfifo', ['-m', '600', ...missing], { env: {} });
  },
};

/** Where memory runs out, what the child started is killed before us; it inherits this. */
function preferAsOomVictim(pid: number | undefined): void {
  try {
    if (pid !== undefined) writeFileSync(`/proc/${pid}/oom_score_adj`, '500');
  } catch {
    // no /proc, or gone already
  }
}
