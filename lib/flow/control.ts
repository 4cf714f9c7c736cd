/** Where a lane goes next inside a node that has children. */
import type { BranchNode } from '../blueprint/flow-schema.ts';
import { type Context, write } from './context.ts';
import { evaluate, type Fuel, truthy } from './expression.ts';
import { FlowFailure, typeName } from './failure.ts';
import type { Frame, Place } from './lane.ts';
import { commit } from './rollback.ts';

/** The child of a branch that its cond, which must be boolean, selects. */
export function chosen(node: BranchNode, at: string, { context, fuel }: Scope): Place {
  const cond = evaluate(node.cond, context, fuel);
  if (typeof cond !== 'boolean')
    throw new FlowFailure(`the cond of a branch must be boolean, not ${typeName(cond)}`);
  return cond ? { node: node.then, at: `${at}/then` } : { node: node.else, at: `${at}/else` };
}

/** The next child inside a frame whose last child is complete; null when the frame is. */
export function nextInside(frame: Frame, { context, fuel }: Scope): Place | null {
  if ('marked' in frame) {
    if (frame.marked) commit(context);
    return null;
  }
  if ('next' in frame) {
    const i = frame.next++;
    const node = frame.node.children[i];
    return node === undefined ? null : { node, at: `${frame.at}/children/${i}` };
  }
  const { counter, cond, body, max } = frame.node;
  if (frame.inside) write(context, counter, ++frame.round);
  frame.inside = true;
  const goesOn = frame.round < max && truthy(evaluate(cond, context, fuel));
  return goesOn ? { node: body, at: `${frame.at}/body/${frame.round}` } : null;
}

interface Scope {
  readonly context: Context;
  readonly fuel: Fuel;
}
