import { readdirSync, readFileSync } from 'node:fs';

/** Whether a process runs; one that has ended and waits to be reaped by init does not. */
export function isRunning(pid: string | number): boolean {
  try {
    const stat = readFileSync(`/proc/${String(pid).trim()}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}

/** Processes that run with `NAME=value` in their environment. */
export function runningWith(mark: string): string[] {
  return running((pid) => read(pid, 'environ').split('\0').includes(mark));
}

/** Processes that run with exactly this command line. */
export function runningAs(...argv: readonly string[]): string[] {
  return running((pid) => read(pid, 'cmdline') === `${argv.join('\0')}\0`);
}

function running(matches: (pid: string) => boolean): string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && matches(name) && isRunning(name));
}

function read(pid: string, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1');
  } catch {
    return '';
  }
}

/** Ended processes that wait to be reaped by `parent`. */
export function zombiesBelow(parent: number): string[] {
  return readdirSync('/proc').filter((name) => {
    const stat = /^\d+$/.test(name) ? read(name, 'stat') : '';
    const [state, ppid] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return state === 'Z' && Number(ppid) === parent;
  });
}
