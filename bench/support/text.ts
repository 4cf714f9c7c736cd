/** A program that prints much text at little cost. */
const LINE = 'the quick brown fox jumps over the lazy dog, again and again, until it is tired';

export const GIB = 1024 ** 3;

/** Lines of text, `bytes` in all. */
export function printing(bytes: number): readonly string[] {
  return ['sh', '-c', `yes '${LINE}' | head -c ${bytes}`];
}
