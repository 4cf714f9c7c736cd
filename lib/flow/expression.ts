/** The value of an expression over a context. */
import type { ArithmeticOp, CompareOp, Expr } from '../blueprint/flow-schema.ts';
import { compareUtf8, isObject, type JsonValue, jsonEquals, toDouble } from '../json.ts';
import { type Context, read } from './context.ts';
import { FlowFailure, typeName } from './failure.ts';

/** What evaluation may still spend before the flow has to dispatch a step or end. */
export interface Fuel {
  left: number;
}

/** Nodes and expressions that may be evaluated between two dispatches. */
export const MAX_EVALUATIONS = 10_000_000;

/** Takes one unit. Throws a `FlowFailure` that no `try` catches when there is none left. */
export function burn(fuel: Fuel): void {
  if (--fuel.left < 0)
    throw new FlowFailure(`flow evaluated ${MAX_EVALUATIONS} nodes without finishing`, 'endless');
}

/** All values but null and false are true. */
export function truthy(value: JsonValue): boolean {
  return value !== null && value !== false;
}

/**
 * Evaluates; the value may be part of the context, so `share` it before it is stored or handed out. Throws
 * `FlowFailure`.
 */
export function evaluate(expr: Expr, context: Context, fuel: Fuel): JsonValue {
  burn(fuel);
  const value = (inner: Expr) => evaluate(inner, context, fuel);
  switch (expr.op) {
    case 'lit':
      return expr.value;
    case 'path':
      return read(context, expr);
    case 'eq':
      return jsonEquals(value(expr.lhs), value(expr.rhs));
    case 'ne':
      return !jsonEquals(value(expr.lhs), value(expr.rhs));
    case 'lt':
    case 'lte':
    case 'gt':
    case 'gte':
      return compare(expr.op, value(expr.lhs), value(expr.rhs));
    case 'not':
      return !truthy(value(expr.arg));
    case 'and':
      return expr.args.every((arg) => truthy(value(arg)));
    case 'or':
      return expr.args.some((arg) => truthy(value(arg)));
    case 'exists':
      return exists(() => value(expr.arg));
    case 'add':
    case 'sub':
    case 'mul':
    case 'div':
    case 'mod':
      return calculate(expr.op, value(expr.lhs), value(expr.rhs));
    case 'len':
      return length(value(expr.arg));
    case 'in':
      return contains(value(expr.needle), value(expr.haystack));
    case 'call_extern':
      throw new FlowFailure(`call_extern ${JSON.stringify(expr.ref)}: there are no host functions to call`);
    default:
      throw new FlowFailure(`unknown op ${JSON.stringify(expr satisfies never)}`);
  }
}

const ORDERS: Readonly<Record<CompareOp, (order: number) => boolean>> = {
  lt: (order) => order < 0,
  lte: (order) => order <= 0,
  gt: (order) => order > 0,
  gte: (order) => order >= 0,
};

function compare(op: CompareOp, lhs: JsonValue, rhs: JsonValue): boolean {
  if (typeof lhs === 'string' && typeof rhs === 'string') return ORDERS[op](compareUtf8(lhs, rhs));
  const [left, right] = [toDouble(lhs), toDouble(rhs)];
  if (left !== undefined && right !== undefined) return ORDERS[op](left < right ? -1 : left > right ? 1 : 0);
  throw new FlowFailure(`${op} needs two numbers or strings, not ${typeName(lhs)} and ${typeName(rhs)}`);
}

const ARITHMETIC: Readonly<Record<ArithmeticOp, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  mod: (a, b) => a - Math.floor(a / b) * b,
};

function calculate(op: ArithmeticOp, lhs: JsonValue, rhs: JsonValue): number {
  const [left, right] = [toDouble(lhs), toDouble(rhs)];
  if (left === undefined || right === undefined)
    throw new FlowFailure(`${op} needs two numbers, not ${typeName(lhs)} and ${typeName(rhs)}`);
  if (right === 0 && (op === 'div' || op === 'mod')) throw new FlowFailure(`${op} by zero`);
  const result = ARITHMETIC[op](left, right);
  if (!Number.isFinite(result))
    throw new FlowFailure(`${op} of ${left} and ${right} is outside the range of a number`);
  return result + 0;
}

function exists(value: () => JsonValue): boolean {
  try {
    return value() !== null;
  } catch (error) {
    if (error instanceof FlowFailure && error.kind === 'path_missing') return false;
    throw error;
  }
}

function length(value: JsonValue): number {
  if (Array.isArray(value)) return value.length;
  if (isObject(value)) return Object.keys(value).length;
  if (typeof value !== 'string')
    throw new FlowFailure(`len needs an array, a string or an object, not ${typeName(value)}`);
  let points = 0;
  for (const _ of value) points++;
  return points;
}

function contains(needle: JsonValue, haystack: JsonValue): boolean {
  if (!Array.isArray(haystack))
    throw new FlowFailure(`in needs an array as its haystack, not ${typeName(haystack)}`);
  return haystack.some((item) => jsonEquals(item, needle));
}
