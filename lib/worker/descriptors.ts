/** Keeps descriptors that our own parent left open from reaching a child. */
import { openSync, readdirSync, readFileSync } from 'node:fs';

const CLOSE_ON_EXEC = 0o2000000;
let covers: readonly ('ignore' | number)[] | undefined;

/**
 * What to append to a child's first three stdio entries: every descriptor that we inherited without close-on-exec
 * is replaced by /dev/null. What Node opens itself is never inherited, so one look is enough.
 */
export function coverInherited(): readonly ('ignore' | number)[] {
  covers ??= cover(inherited());
  return covers;
}

function cover(leaking: readonly number[]): readonly ('ignore' | number)[] {
  if (leaking.length === 0) return [];
  const nothing = openSync('/dev/null', 'r');
  return Array.from({ length: Math.max(...leaking) - 2 }, (_, i) =>
    leaking.includes(i + 3) ? nothing : 'ignore',
  );
}

function inherited(): number[] {
  return names('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && (flagsOf(fd) & CLOSE_ON_EXEC) === 0);
}

function names(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

function flagsOf(fd: number): number {
  try {
    const octal = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
    return Number.parseInt(octal, 8);
  } catch {
    return CLOSE_ON_EXEC;
  }
}
