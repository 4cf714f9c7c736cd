/** One run of `cat`, 1 KiB in and out, to the collected Exit: against Node's own spawn and against C's. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { compileLauncher } from '../launcher/compile.ts';
import { type Contest, compare, type Measured } from './measure.ts';

const ROUNDS = 200;
const CPU_ROUNDS = 7;
const CPU_RUNS = 200;
const HEAP_MB = 100;

export async function measure(): Promise<readonly Measured[]> {
  const dir = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
  const stops: (() => void)[] = [];
  const start = (program: string, ...args: string[]) => {
    const asked = answering(program, args);
    stops.push(asked.stop);
    return asked.ask;
  };
  try {
    const launcher = join(dir, 'launcher');
    const problem = await compileLauncher(launcher);
    if (problem !== null) throw new Error(`the launcher cannot be compiled here: ${problem}`);
    const floor = join(dir, 'floor');
    execFileSync('cc', ['-O2', '-o', floor, join(import.meta.dirname, 'support', 'posix-spawn.c')]);
    const script = join(import.meta.dirname, 'support', 'spawn-process.ts');
    const small = start(process.execPath, script, launcher, '0');
    const large = start(process.execPath, script, launcher, String(HEAP_MB));
    const forked = start(process.execPath, script, 'none', '0');
    const c = start(floor);
    const ms = (ask: Ask, way: string) => async () => (await ask(`${way} 1\n`)).ms;
    const cpu = (ask: Ask, way: string) => async () => (await ask(`${way} ${CPU_RUNS}\n`)).cpu_ms;
    const inC = async () => (await c('n')).ms;
    const contests: Omit<Contest, 'rounds'>[] = [
      { what: 'a run, against bare spawn', goal: 0.8, ours: ms(small, 'ours'), floor: ms(small, 'bare') },
      { what: 'a run, against posix_spawn in C', goal: 1.8, ours: ms(small, 'ours'), floor: inC },
      {
        what: 'a run with 100 MB more heap, against without',
        goal: 1.25,
        ours: ms(large, 'ours'),
        floor: ms(small, 'ours'),
      },
      { what: 'the same of bare spawn', ours: ms(large, 'bare'), floor: ms(small, 'bare') },
      {
        what: 'a run in stream mode, against bare spawn',
        goal: 1.15,
        ours: ms(small, 'stream'),
        floor: ms(small, 'bare'),
      },
      {
        what: 'a run without the launcher, against bare spawn',
        ours: ms(forked, 'ours'),
        floor: ms(small, 'bare'),
      },
      { what: 'bare spawn, against posix_spawn in C', ours: ms(small, 'bare'), floor: inC },
    ];
    const rows: Measured[] = [];
    for (const contest of contests) rows.push(await compare({ ...contest, rounds: ROUNDS }));
    rows.push(
      await compare({
        what: 'CPU of a run, against bare spawn',
        goal: 0.65,
        ours: cpu(small, 'ours'),
        floor: cpu(small, 'bare'),
        rounds: CPU_ROUNDS,
      }),
    );
    return rows;
  } finally {
    for (const stop of stops) stop();
    rmSync(dir, { recursive: true });
  }
}

interface Answer {
  readonly ms: number;
  readonly cpu_ms: number;
}
type Ask = (question: string) => Promise<Answer>;

/** A process that answers what it is asked with a line: JSON, or nanoseconds. */
function answering(
  program: string,
  args: readonly string[],
): { readonly ask: Ask; readonly stop: () => void } {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const ask = async (question: string): Promise<Answer> => {
    child.stdin.write(question);
    const { value, done } = await lines.next();
    if (done) throw new Error(`${program} ended`);
    const answer: Answer | number = JSON.parse(value);
    return typeof answer === 'number' ? { ms: answer / 1e6, cpu_ms: Number.NaN } : answer;
  };
  return { ask, stop: () => child.stdin.end() };
}
