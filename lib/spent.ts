/** What programs told about their use, summed over attempts, steps and rounds. */
import type { Stats, Usage } from './task.ts';

/** Absent where no program told. */
export interface Spent {
  readonly usage?: Usage;
  /** US dollars */
  readonly cost_usd?: number;
  readonly num_turns?: number;
}

export function spentBy({ usage, cost_usd, num_turns }: Stats): Spent {
  return present({ usage, cost_usd, num_turns });
}

export function sumSpent(parts: readonly (Spent | undefined)[]): Spent {
  return present({
    usage: sumUsage(parts.map((part) => part?.usage)),
    cost_usd: sum(parts.map((part) => part?.cost_usd)),
    num_turns: sum(parts.map((part) => part?.num_turns)),
  });
}

function present(all: { readonly [Key in keyof Spent]: Spent[Key] | undefined }): Spent {
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
}

/** The sum of what is there, saturated at 2^53 - 1, or undefined where nothing is. */
export function sumUsage(parts: readonly (Usage | undefined)[]): Usage | undefined {
  const sums: Record<string, number> = {};
  for (const part of parts) {
    for (const [name, tokens] of Object.entries(part ?? {}))
      sums[name] = saturated((sums[name] ?? 0) + tokens);
  }
  const { input_tokens, output_tokens, total_tokens, ...cache } = sums;
  if (input_tokens === undefined || output_tokens === undefined || total_tokens === undefined)
    return undefined;
  return { input_tokens, output_tokens, total_tokens, ...cache };
}

export function saturated(tokens: number): number {
  return Math.min(tokens, Number.MAX_SAFE_INTEGER);
}

function sum(parts: readonly (number | undefined)[]): number | undefined {
  const known = parts.filter((part) => part !== undefined);
  return known.length === 0 ? undefined : known.reduce((total, part) => total + part, 0);
}
