/** Going back to an earlier state of a context, at a cost of what was written since. */
import { setMember } from '../json.ts';
import { type Context, type Mark, remember, type Snapshot, share } from './context.ts';

/** Marks the present state. Every mark ends with one `commit` or `rollback`, innermost first. */
export function begin(context: Context): void {
  context.marks.push({ root: context.root, size: context.size, old: new Map(), made: new WeakSet() });
}

/** Keeps what was written since the innermost mark. */
export function commit(context: Context): void {
  const inner = context.marks.pop();
  const outer = context.marks.at(-1);
  if (inner && outer) for (const [object, members] of inner.old) remember(outer, object, members);
}

/** Brings back the state of the innermost mark. */
export function rollback(context: Context): void {
  const mark = context.marks.pop();
  if (mark === undefined) return;
  undo(mark);
  context.root = mark.root;
  context.size = mark.size;
}

/** The present state to fork from. The context gives up what it owned, so that a later write copies it. */
export function snapshot(context: Context): Snapshot {
  const root = context.marks.length === 0 ? context.root : share(context, context.root);
  for (const mark of context.marks.toReversed()) {
    undo(mark);
    mark.old.clear();
    mark.root = share(context, mark.root);
  }
  context.root = root;
  context.owned = new WeakSet();
  return { root, size: context.size };
}

function undo({ old }: Mark): void {
  for (const [object, members] of old) {
    for (const [key, value] of members) {
      if (value === undefined) delete object[key];
      else setMember(object, key, value);
    }
  }
}
