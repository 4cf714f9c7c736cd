/** Runs flows with canned answers, for the tests of the flow language. */
import type { Expr, FlowNode, PathExpr } from '../../lib/blueprint/flow-schema.ts';
import type { PlannedStep } from '../../lib/flow/lane.ts';
import { measure } from '../../lib/flow/measure.ts';
import { type FlowStatus, startFlow } from '../../lib/flow/run.ts';
import type { StepResult } from '../../lib/flow/step-result.ts';
import type { JsonValue } from '../../lib/json.ts';

export const lit = (value: JsonValue): Expr => ({ op: 'lit', value });
export const path = (at: string): PathExpr => ({ op: 'path', at });
export const step = (ref: string, input: Expr, out: string): FlowNode => ({
  kind: 'step',
  ref,
  in: input,
  out: path(out),
});
export const seq = (...children: FlowNode[]): FlowNode => ({ kind: 'seq', children });
export const assign = (at: string, value: Expr): FlowNode => ({ kind: 'assign', at: path(at), value });

export type Answer = { pass: JsonValue } | { blocked: JsonValue } | { error: string };

export function resultOf(answer: Answer, completed_at: string): StepResult {
  if ('pass' in answer) return { status: 'passed', value: answer.pass, completed_at };
  if ('blocked' in answer) return { status: 'blocked', value: answer.blocked, completed_at };
  return { status: 'failed', message: answer.error, completed_at };
}

export const stamp = (n: number): string => `2026-01-01T00:00:${String(n).padStart(9, '0')}Z`;

export interface Live {
  readonly status: FlowStatus;
  readonly decisions: ReadonlyMap<string, number>;
  readonly calls: PlannedStep[];
  /** one entry per result that was fed, with what was known just before */
  readonly log: {
    readonly position: string;
    readonly result: StepResult;
    readonly outstanding: PlannedStep[];
    readonly decisions: ReadonlyMap<string, number>;
  }[];
  readonly dropped: string[];
}

/** Results and characters over which a random run is not looked at: contexts can grow by powers. */
export const SMALL = { results: 60, size: 20_000 };

export function isSmall({ status, calls }: Live): boolean {
  const values = calls.map((call) => call.in);
  if ('ctx' in status) values.push(status.ctx);
  return status.status !== 'running' && values.every((value) => measure(value).size <= SMALL.size);
}

export interface Script {
  readonly flow: FlowNode;
  readonly ctx?: JsonValue;
  readonly metas?: ReadonlyMap<string, JsonValue>;
  readonly decisions?: ReadonlyMap<string, number>;
  answer(step: PlannedStep): Answer;
  /** which of the outstanding steps completes next; by default the first */
  choose?(count: number): number;
  completedAt?(n: number): string;
  /** results after which to stop, done or not; none by default */
  readonly limit?: number;
}

/** Runs a flow to its end, one completion at a time. */
export function runLive({ choose = () => 0, completedAt = stamp, answer, limit, ...script }: Script): Live {
  const run = startFlow({ ctx: {}, metas: new Map(), ...script });
  const calls: PlannedStep[] = [];
  const log: Live['log'] = [];
  const allDropped: string[] = [];
  let outstanding: PlannedStep[] = [];
  for (;;) {
    const dropped = run.takeDropped();
    const fresh = run.pending();
    allDropped.push(...dropped);
    calls.push(...fresh);
    outstanding = [...outstanding.filter(({ position }) => !dropped.includes(position)), ...fresh];
    if (run.status.status !== 'running' || log.length >= (limit ?? Number.POSITIVE_INFINITY)) break;
    const chosen = outstanding[choose(outstanding.length)]!;
    const result = resultOf(answer(chosen), completedAt(log.length));
    log.push({ position: chosen.position, result, outstanding, decisions: new Map(run.decisions) });
    outstanding = outstanding.filter((other) => other !== chosen);
    run.settle(chosen.position, result);
  }
  return { status: run.status, decisions: run.decisions, calls, log, dropped: allDropped };
}
