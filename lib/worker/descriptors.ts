/** Keeps descriptors that our own parent, or native code in our process, left open from reaching a child. */
import { openSync, readFileSync } from 'node:fs';
import { readNames } from './processes.ts';

const CLOSE_ON_EXEC = 0o2000000;
let covers: readonly ('ignore' | number)[] | undefined;
let nothing: number | undefined;

/**
 * What to append to a child's first three stdio entries: every descriptor without close-on-exec is replaced by
 * /dev/null. What Node opens itself is never inherited, so one look is enough, unless native code opens some.
 */
export function coverInherited(): readonly ('ignore' | number)[] {
  covers ??= cover(inherited());
  return covers;
}

/** Has the next child's descriptors looked at anew: for hosts with native code that opens inheritable ones. */
export function lookAgain(): void {
  covers = undefined;
}

function cover(leaking: readonly number[]): readonly ('ignore' | number)[] {
  if (leaking.length === 0) return [];
  nothing ??= openSync('/dev/null', 'r');
  const fd = nothing;
  return Array.from({ length: Math.max(...leaking) - 2 }, (_, i) =>
    leaking.includes(i + 3) ? fd : 'ignore',
  );
}

function inherited(): number[] {
  return readNames('/proc/self/fdinfo')
    .map(Number)
    .filter((fd) => fd > 2 && (flagsOf(fd) & CLOSE_ON_EXEC) === 0);
}

function flagsOf(fd: number): number {
  try {
    const octal = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
    return Number.parseInt(octal, 8);
  } catch {
    return CLOSE_ON_EXEC;
  }
}
