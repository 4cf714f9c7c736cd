import { readFileSync } from 'node:fs';

/** Whether a process runs; one that has ended and waits to be reaped by init does not. */
export function isRunning(pid: string | number): boolean {
  try {
    const stat = readFileSync(`/proc/${String(pid).trim()}/stat`, 'latin1');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) !== 'Z';
  } catch {
    return false;
  }
}
