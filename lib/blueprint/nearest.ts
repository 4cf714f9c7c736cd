/** Hints for misspelt names, and names as messages show them. */

const MAX_LENGTH = 40;

/** The candidate that is one or two typing errors away from the word, if any; short words allow none or one. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  if (word.length > MAX_LENGTH) return undefined;
  let best: string | undefined;
  let least = Math.min(3, Math.ceil(word.length / 2));
  for (const candidate of candidates) {
    const steps = editDistance(word, candidate);
    if (steps < least) {
      least = steps;
      best = candidate;
    }
  }
  return best;
}

/** Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let steps = Math.min(row[j - 1]! + 1, last[j]! + 1, last[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        steps = Math.min(steps, before[j - 2]! + 1);
      }
      row.push(steps);
    }
    before = last;
    last = row;
  }
  return last[b.length]!;
}

/** A name in single quotes, cut where it is too long to read. */
export function quote(name: string): string {
  return `'${shorten(name)}'`;
}

/** Text cut to what a message can carry. */
export function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** `[a, b]` of the names given, the first twenty of them. */
export function listed(names: readonly string[] | ReadonlyMap<string, unknown>): string {
  const size = 'size' in names ? names.size : names.length;
  const first = [...('size' in names ? names.keys() : names.values()).take(20)];
  const more = size > first.length ? `, and ${size - first.length} more` : '';
  return `[${first.map(shorten).join(', ')}${more}]`;
}
