/**
 * Globs as a machine of states that reads a path once: time grows with path times pattern whatever the two are, and a
 * folder below which nothing can match is known before it is opened.
 */
import { placed, placeProblem, segmentProblem } from './places.ts';

/** Where the machine can be after what it has read; none = what follows cannot match. */
export type States = readonly number[];

export interface Glob {
  /** before the first name */
  readonly start: States;
  /** after a name of a file or folder */
  readonly afterName: (states: States, name: string) => States;
  /** after the slash behind a folder's name */
  readonly afterSlash: (states: States) => States;
  readonly matches: (states: States) => boolean;
  /** how much work it did so far, in states times characters */
  readonly steps: () => number;
}

export type GlobAnswer =
  | { readonly ok: true; readonly glob: Glob }
  | { readonly ok: false; readonly problem: string };

const MAX_CHARS = 512;

/**
 * Reads `*` and `?` (any characters of a name, one character), `**` (any folders), `[a-z]`, `[!a-z]`, `{a,b}` and `\`
 * before a literal character. A name that begins with a dot is matched by a pattern that writes the dot.
 */
export function readGlob(text: string): GlobAnswer {
  const problem = outerProblem(text);
  if (problem !== undefined) return { ok: false, problem };
  const parsed = parse([...placed(text).rest]);
  return typeof parsed === 'string' ? { ok: false, problem: parsed } : { ok: true, glob: machineOf(parsed) };
}

function outerProblem(text: string): string | undefined {
  if (text.length > MAX_CHARS) return `${text.length} characters long, a glob can have ${MAX_CHARS}`;
  const general = placeProblem(text);
  if (general !== undefined) return general;
  const { rest } = placed(text);
  const segments = rest.split('/').map(segmentProblem);
  const within = rest
    .split(/[/{},]/)
    .filter((part) => part !== '')
    .map(segmentProblem);
  return [...segments, ...within].find((problem) => problem !== undefined);
}

type Test = (char: string) => boolean;
type Piece =
  | { readonly kind: 'one'; readonly test: Test; readonly opens: boolean }
  | { readonly kind: 'run' | 'folders' | 'rest' }
  | { readonly kind: 'either'; readonly options: readonly (readonly Piece[])[] };

const NOT_SLASH: Test = (char) => char !== '/';

/** The pieces of a pattern, or what is wrong with it. */
function parse(chars: readonly string[]): readonly Piece[] | string {
  let at = 0;
  let problem: string | undefined;
  const fail = (text: string): void => {
    problem ??= text;
    at = chars.length;
  };

  const sequence = (depth: number, begins: boolean): Piece[] => {
    const pieces: Piece[] = [];
    const ends = (char: string | undefined): boolean =>
      char === undefined || (depth > 0 && (char === ',' || char === '}'));
    let atStart = begins;
    while (!ends(chars[at])) {
      const char = chars[at++]!;
      const wasStart = atStart;
      atStart = char === '/';
      if (char === '*' && chars[at] === '*' && wasStart && (chars[at + 1] === '/' || ends(chars[at + 1]))) {
        const isLast = chars[at + 1] !== '/';
        at += isLast ? 1 : 2;
        atStart = true;
        pieces.push({ kind: isLast ? 'rest' : 'folders' });
      } else if (char === '*') pieces.push({ kind: 'run' });
      else if (char === '?') pieces.push({ kind: 'one', test: NOT_SLASH, opens: false });
      else if (char === '[') pieces.push({ kind: 'one', test: characterClass(), opens: false });
      else if (char === '{') pieces.push({ kind: 'either', options: alternatives(depth, wasStart) });
      else if (char === '\\') pieces.push(literal(escaped(), wasStart));
      else pieces.push(literal(char, wasStart));
    }
    return pieces;
  };

  const escaped = (): string => {
    const char = chars[at++];
    if (char === undefined || char === '/') fail('a \\ without a character after it that it makes literal');
    return char ?? '';
  };

  const alternatives = (depth: number, begins: boolean): Piece[][] => {
    const start = at - 1;
    const options = [sequence(depth + 1, begins)];
    while (chars[at] === ',') {
      at++;
      options.push(sequence(depth + 1, begins));
    }
    if (chars[at++] !== '}') fail(`{ at offset ${start} is not closed; write \\{ for the character`);
    else if (options.length === 1)
      fail(`{ } at offset ${start} holds no comma; write {a,b}, or \\{ for the character`);
    return options;
  };

  const characterClass = (): Test => {
    const start = at - 1;
    const negated = chars[at] === '!' || chars[at] === '^';
    if (negated) at++;
    const ranges: (readonly [string, string])[] = [];
    const member = (): string => {
      if (chars[at] === '\\') at++;
      return chars[at++] ?? '';
    };
    for (let first = true; at < chars.length && (first || chars[at] !== ']'); first = false) {
      if (chars[at] === '/') break;
      if (chars[at] === '[' && chars[at + 1] === ':')
        fail('classes such as [:alpha:] are not known; write a-z');
      const from = member();
      const isRange = chars[at] === '-' && chars[at + 1] !== undefined && chars[at + 1] !== ']';
      if (isRange) at++;
      ranges.push([from, isRange ? member() : from]);
    }
    if (chars[at++] !== ']') fail(`[ at offset ${start} is not closed; write \\[ for the character`);
    const points = ranges.map(([from, to]) => [codeOf(from), codeOf(to)] as const);
    return (char) =>
      char !== '/' && points.some(([from, to]) => codeOf(char) >= from && codeOf(char) <= to) !== negated;
  };

  const pieces = sequence(0, true);
  return problem ?? pieces;
}

function literal(char: string, opens: boolean): Piece {
  return { kind: 'one', test: (other) => other === char, opens };
}

function codeOf(char: string): number {
  return char.codePointAt(0) ?? -1;
}

/** Reads one character and goes to `next`; a dot that begins a name only where it stands for the first character. */
interface Reader {
  readonly test: Test;
  readonly opens: boolean;
  readonly next: number;
}
/** Goes on in several states at once, without reading; none = the end of the pattern. */
interface Fork {
  readonly to: number[];
}

function machineOf(pattern: readonly Piece[]): Glob {
  const program: (Reader | Fork)[] = [];
  const put = (part: Reader | Fork): number => program.push(part) - 1;
  const read = (test: Test, next: number, opens = false): number => put({ test, opens, next });

  /** any characters of a name, then `next` */
  const run = (next: number): number => {
    const fork: Fork = { to: [next] };
    const here = put(fork);
    fork.to.push(read(NOT_SLASH, here));
    return here;
  };
  const place = (piece: Piece, next: number): number => {
    if (piece.kind === 'one') return read(piece.test, next, piece.opens);
    if (piece.kind === 'run') return run(next);
    if (piece.kind === 'either') return put({ to: piece.options.map((option) => chain(option, next)) });
    const fork: Fork = { to: [] };
    const here = put(fork);
    const slash = read((char) => char === '/', here);
    if (piece.kind === 'folders') {
      fork.to.push(next, read(NOT_SLASH, run(slash)));
    } else {
      fork.to.push(read(NOT_SLASH, run(put({ to: [next, slash] }))));
    }
    return here;
  };
  const chain = (pieces: readonly Piece[], next: number): number =>
    pieces.reduceRight((after, piece) => place(piece, after), next);

  const end = put({ to: [] });
  const first = chain(pattern, end);
  const seenIn = new Uint32Array(program.length);
  let round = 0;
  let steps = 0;
  const reach = (state: number, into: number[]): void => {
    if (seenIn[state] === round) return;
    seenIn[state] = round;
    const part = program[state]!;
    if ('to' in part && state !== end) for (const next of part.to) reach(next, into);
    else into.push(state);
  };
  const advance = (states: States, char: string, atStart: boolean): States => {
    const after: number[] = [];
    round++;
    steps += states.length + 1;
    for (const state of states) {
      const part = program[state]!;
      if ('to' in part || !part.test(char)) continue;
      if (!atStart || char !== '.' || part.opens) reach(part.next, after);
    }
    return after;
  };
  const start: number[] = [];
  round++;
  reach(first, start);
  return {
    start,
    afterName: (states, name) => {
      let now = states;
      let atStart = true;
      for (const char of name) {
        if (now.length === 0) break;
        now = advance(now, char, atStart);
        atStart = false;
      }
      return now;
    },
    afterSlash: (states) => (states.length === 0 ? states : advance(states, '/', false)),
    matches: (states) => states.includes(end),
    steps: () => steps,
  };
}
