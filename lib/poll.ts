/** Looks again and again at something that may have appeared in the store. */

/** Milliseconds until the first look, and between two. */
export interface Poll {
  readonly first_ms: number;
  readonly then_ms: number;
}

/** Calls `look` until the returned function is called; a look is never begun before the one before has ended. */
export function pollFor({ first_ms, then_ms }: Poll, look: () => Promise<void>): () => void {
  let stopped = false;
  const again = (): void => {
    void look()
      .catch(() => undefined)
      .then(() => {
        if (!stopped) timer = setTimeout(again, then_ms);
      });
  };
  let timer = setTimeout(again, first_ms);
  return () => {
    stopped = true;
    clearTimeout(timer);
  };
}
