/** What this process holds, from the kernel. */
import { readFileSync } from 'node:fs';

/** The most that was resident at any time. */
export function peakBytes(): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}
