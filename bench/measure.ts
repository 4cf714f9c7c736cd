/** What the benchmarks share: interleaved rounds, medians, ratios. */

/** A ratio of two medians from interleaved rounds, or a count; smaller is better unless a least is given. */
export interface Measured {
  readonly what: string;
  readonly ratio: number;
  /** the ratio to stay under */
  readonly goal?: number;
  /** the ratio to reach */
  readonly least?: number;
  /** medians and spread, for people */
  readonly detail: string;
}

export interface Contest {
  readonly what: string;
  readonly goal?: number;
  /** measured, and what it is measured against; each returns milliseconds */
  readonly ours: () => number | Promise<number>;
  readonly floor: () => number | Promise<number>;
  readonly rounds: number;
}

/** Runs both sides in turn `rounds` times, after one round to warm up, and compares their medians. */
export async function compare({ what, goal, ours, floor, rounds }: Contest): Promise<Measured> {
  const left: number[] = [];
  const right: number[] = [];
  await floor();
  await ours();
  for (let round = 0; round < rounds; round++) {
    right.push(await floor());
    left.push(await ours());
  }
  const ratio = median(left) / median(right);
  return {
    what,
    ratio,
    ...(goal !== undefined && { goal }),
    detail: `${spread(left)} against ${spread(right)} ms`,
  };
}

/** Runs every side in turn `rounds` times, after one round to warm up where asked; what each returned, by name. */
export async function interleave<T>(
  sides: Readonly<Record<string, () => Promise<T>>>,
  { rounds, warmup }: { readonly rounds: number; readonly warmup: number },
): Promise<Readonly<Record<string, readonly T[]>>> {
  const returned: Record<string, T[]> = {};
  for (let round = -warmup; round < rounds; round++) {
    for (const [name, side] of Object.entries(sides)) {
      const value = await side();
      if (round < 0) continue;
      returned[name] ??= [];
      returned[name].push(value);
    }
  }
  return returned;
}

/** Milliseconds that `work` takes. */
export function time(work: () => unknown): number {
  const begun = performance.now();
  work();
  return performance.now() - begun;
}

export function median(numbers: readonly number[]): number {
  const sorted = [...numbers].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Median and range as text, such as `2.1 (1.9-3.0)`. */
export function spread(numbers: readonly number[], digits = 1): string {
  const [middle, least, most] = [median(numbers), Math.min(...numbers), Math.max(...numbers)];
  return `${middle.toFixed(digits)} (${least.toFixed(digits)}-${most.toFixed(digits)})`;
}
