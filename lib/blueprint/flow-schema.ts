/** The shape of a flow: nodes (closed by `kind`) and expressions (closed by `op`). */
import * as z from 'zod/mini';
import type { JsonValue } from '../json.ts';
import { Json, Whole } from '../task.ts';
import { type ParsedPath, parseLetPath, parsePath } from './path.ts';

export type CompareOp = 'lt' | 'lte' | 'gt' | 'gte';
export type ArithmeticOp = 'add' | 'sub' | 'mul' | 'div' | 'mod';

export interface PathExpr {
  readonly op: 'path';
  readonly at: string;
}
export type Expr =
  | { readonly op: 'lit'; readonly value: JsonValue }
  | PathExpr
  | { readonly op: 'eq' | 'ne' | CompareOp | ArithmeticOp; readonly lhs: Expr; readonly rhs: Expr }
  | { readonly op: 'not' | 'exists' | 'len'; readonly arg: Expr }
  | { readonly op: 'and' | 'or'; readonly args: readonly Expr[] }
  | { readonly op: 'in'; readonly needle: Expr; readonly haystack: Expr }
  | { readonly op: 'call_extern'; readonly ref: string; readonly args: readonly Expr[] };

export interface StepNode {
  readonly kind: 'step';
  /** name of the agent */
  readonly ref: string;
  readonly in: Expr;
  readonly out: PathExpr;
}
export interface SeqNode {
  readonly kind: 'seq';
  readonly children: readonly FlowNode[];
}
export interface BranchNode {
  readonly kind: 'branch';
  readonly cond: Expr;
  readonly then: FlowNode;
  readonly else: FlowNode;
}
export interface LoopNode {
  readonly kind: 'loop';
  readonly counter: PathExpr;
  readonly cond: Expr;
  readonly body: FlowNode;
  readonly max: number;
}
export interface FanoutNode {
  readonly kind: 'fanout';
  readonly items: Expr;
  readonly bind: PathExpr;
  readonly body: FlowNode;
  readonly join: 'all' | 'all_settled' | 'any' | 'race';
  readonly out: PathExpr;
}
export interface TryNode {
  readonly kind: 'try';
  readonly body: FlowNode;
  readonly catch: FlowNode;
  readonly err_at?: PathExpr | null | undefined;
}
export interface AssignNode {
  readonly kind: 'assign';
  readonly at: PathExpr;
  readonly value: Expr;
}
/** The later spelling of `assign`: `at` is bare path text rooted at `$` or `ctx`. */
export interface LetNode {
  readonly kind: 'let';
  readonly at: string;
  readonly value: Expr;
}
export type FlowNode =
  | StepNode
  | SeqNode
  | BranchNode
  | LoopNode
  | FanoutNode
  | TryNode
  | AssignNode
  | LetNode;

const pathText = (parse: (text: string) => ParsedPath) =>
  z.string().check((context) => {
    const parsed = parse(context.value);
    if (!parsed.ok) context.issues.push({ code: 'custom', message: parsed.message, input: context.value });
  });

const binary = <Op extends 'eq' | 'ne' | CompareOp | ArithmeticOp>(op: Op) =>
  z.strictObject({
    op: z.literal(op),
    get lhs() {
      return Expr;
    },
    get rhs() {
      return Expr;
    },
  });

const unary = <Op extends 'not' | 'exists' | 'len'>(op: Op) =>
  z.strictObject({
    op: z.literal(op),
    get arg() {
      return Expr;
    },
  });

const variadic = <Op extends 'and' | 'or'>(op: Op) =>
  z.strictObject({
    op: z.literal(op),
    get args() {
      return z.array(Expr);
    },
  });

export const Expr: z.ZodMiniType<Expr> = z.discriminatedUnion('op', [
  z.strictObject({ op: z.literal('lit'), value: Json }),
  z.strictObject({ op: z.literal('path'), at: pathText(parsePath) }),
  binary('eq'),
  binary('ne'),
  binary('lt'),
  binary('lte'),
  binary('gt'),
  binary('gte'),
  unary('not'),
  variadic('and'),
  variadic('or'),
  unary('exists'),
  binary('add'),
  binary('sub'),
  binary('mul'),
  binary('div'),
  binary('mod'),
  unary('len'),
  z.strictObject({
    op: z.literal('in'),
    get needle() {
      return Expr;
    },
    get haystack() {
      return Expr;
    },
  }),
  z.strictObject({
    op: z.literal('call_extern'),
    ref: z.string(),
    get args() {
      return z.array(Expr);
    },
  }),
]);

/** An expression that names a place to write to; its check sees to it that it is one. */
const target = (field: string) =>
  Expr.check(
    z.refine((expr) => expr.op === 'path', {
      error: ({ input }) =>
        `${field} must be a path expression such as {"op":"path","at":"$.x"}, not op ${opOf(input)}`,
    }),
  ) as z.ZodMiniType<unknown> as z.ZodMiniType<PathExpr>;

function opOf(input: unknown): string {
  return typeof input === 'object' && input !== null && 'op' in input ? JSON.stringify(input.op) : 'none';
}

const U32_MAX = 4_294_967_295;

export const FlowNode: z.ZodMiniType<FlowNode> = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('step'), ref: z.string(), in: Expr, out: target('out') }),
  z.strictObject({
    kind: z.literal('seq'),
    get children() {
      return z.array(FlowNode);
    },
  }),
  z.strictObject({
    kind: z.literal('branch'),
    cond: Expr,
    get then() {
      return FlowNode;
    },
    get else() {
      return FlowNode;
    },
  }),
  z.strictObject({
    kind: z.literal('loop'),
    counter: target('counter'),
    cond: Expr,
    get body() {
      return FlowNode;
    },
    max: z.pipe(Whole, z.int().check(z.minimum(0), z.maximum(U32_MAX))),
  }),
  z.strictObject({
    kind: z.literal('fanout'),
    items: Expr,
    bind: target('bind'),
    get body() {
      return FlowNode;
    },
    join: z.enum(['all', 'all_settled', 'any', 'race']),
    out: target('out'),
  }),
  z.strictObject({
    kind: z.literal('try'),
    get body() {
      return FlowNode;
    },
    get catch() {
      return FlowNode;
    },
    err_at: z.nullish(target('err_at')),
  }),
  z.strictObject({ kind: z.literal('assign'), at: target('at'), value: Expr }),
  z.strictObject({ kind: z.literal('let'), at: pathText(parseLetPath), value: Expr }),
]);
