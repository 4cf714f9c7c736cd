/** The flow language in its plainest form, on deep copies and without concurrency: what runs are compared with. */
import type { Expr, FlowNode } from '../../lib/blueprint/flow-schema.ts';
import { openContext, write } from '../../lib/flow/context.ts';
import { evaluate } from '../../lib/flow/expression.ts';
import { FlowFailure } from '../../lib/flow/failure.ts';
import { fold } from '../../lib/flow/fold.ts';
import { stepError } from '../../lib/flow/step-result.ts';
import type { JsonValue } from '../../lib/json.ts';
import { type Answer, resultOf, SMALL } from './driver.ts';

type Outcome = { ctx: JsonValue } | { error: string } | 'too large';

const TOO_LARGE = Symbol('too large');

/**
 * Fanouts may be of join `all_settled` only, whose outcome is the same in any order. Gives up on contexts that
 * grow by powers.
 */
export function interpret(flow: FlowNode, start: JsonValue, answer: (position: string) => Answer): Outcome {
  let ctx = structuredClone(start);

  let effort = 1000;
  const get = (expr: Expr) => structuredClone(evaluate(expr, openContext(ctx), { left: 1e6 }));
  const put = (at: Expr, value: JsonValue) => {
    const context = openContext(structuredClone(ctx));
    if (context.size > SMALL.size || --effort < 0) throw TOO_LARGE;
    write(context, at, structuredClone(value));
    ctx = structuredClone(context.root);
  };

  function walk(node: FlowNode, at: string): void {
    if (node.kind === 'seq') {
      for (const [i, child] of node.children.entries()) walk(child, `${at}/children/${i}`);
    } else if (node.kind === 'assign') put(node.at, get(node.value));
    else if (node.kind === 'branch') {
      const cond = get(node.cond);
      if (typeof cond !== 'boolean') evaluateBranch(cond);
      if (cond) walk(node.then, `${at}/then`);
      else walk(node.else, `${at}/else`);
    } else if (node.kind === 'loop') {
      put(node.counter, 0);
      for (let n = 0; n < node.max && ![null, false].includes(get(node.cond) as null); put(node.counter, ++n))
        walk(node.body, `${at}/body/${n}`);
    } else if (node.kind === 'try') {
      const before = structuredClone(ctx);
      try {
        walk(node.body, `${at}/body`);
      } catch (error) {
        if (!(error instanceof FlowFailure)) throw error;
        ctx = before;
        if (node.err_at) put(node.err_at, error.message);
        walk(node.catch, `${at}/catch`);
      }
    } else if (node.kind === 'fanout') {
      const items = get(node.items);
      if (!Array.isArray(items))
        throw new FlowFailure(`the items of a fanout must be an array, not ${nameOf(items)}`);
      const before = ctx;
      const binds = items.map((item) => {
        ctx = structuredClone(before);
        put(node.bind, item);
        return ctx;
      });
      const settled = binds.map((bound, i): JsonValue => {
        ctx = bound;
        try {
          walk(node.body, `${at}/body/${i}`);
          return { status: 'fulfilled', value: ctx };
        } catch (error) {
          if (!(error instanceof FlowFailure)) throw error;
          return { status: 'rejected', reason: error.message };
        }
      });
      ctx = before;
      put(node.out, settled);
    } else if (node.kind === 'step') {
      get(node.in);
      const result = resultOf(answer(at), '');
      if (result.status !== 'passed') throw new FlowFailure(stepError(node.ref, at, result).message);
      put(node.out, fold(result.value));
    }
  }

  try {
    walk(flow, '');
    return { ctx };
  } catch (error) {
    if (error instanceof FlowFailure) return { error: error.message };
    if (error === TOO_LARGE) return 'too large';
    throw error;
  }
}

function nameOf(value: JsonValue): string {
  return value === null ? 'null' : typeof value;
}

function evaluateBranch(cond: JsonValue): never {
  const name = Array.isArray(cond) ? 'array' : nameOf(cond);
  throw new FlowFailure(`the cond of a branch must be boolean, not ${name}`);
}
