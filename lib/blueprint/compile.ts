/** From a document to what runs: every agent with its template, profile and overrides resolved, nothing rendered. */
import type { Issue } from '../errors.ts';
import type { JsonValue } from '../json.ts';
import { bakeAgents, type CompiledAgent } from './bake.ts';
import { bindBlueprint } from './bindings.ts';
import { runChecks } from './checks.ts';
import type { FlowNode } from './flow-schema.ts';
import { capped } from './issues.ts';
import { readBlueprint } from './read-blueprint.ts';
import { walkDocument } from './walk.ts';

export type { CompiledAgent, EmbedTemplate, Worker } from './bake.ts';
export type { SpecWorker } from './spec.ts';

/** Plain data; `agents` and `metas` have no prototype, so that any name is only data. */
export interface Compiled {
  readonly id: string;
  readonly flow: FlowNode;
  readonly metas: Readonly<Record<string, JsonValue>>;
  readonly default_init_ctx?: JsonValue;
  /** seconds a run may take */
  readonly default_run_ttl_secs?: number;
  readonly agents: Readonly<Record<string, CompiledAgent>>;
}

export type CompileAnswer =
  | { readonly ok: true; readonly compiled: Compiled; readonly warnings: readonly Issue[] }
  | { readonly ok: false; readonly issues: readonly Issue[] };

/** Checks a document and resolves its agents; every issue at once, warnings included. */
export function compile(document: JsonValue): CompileAnswer {
  const walked = walkDocument(document);
  if (walked.some(({ code }) => code === 'too_deep')) return { ok: false, issues: capped(walked) };
  const read = readBlueprint(document);
  const subject = bindBlueprint(read.ok ? read.blueprint : read.draft);
  const issues = capped(concat(walked, read.ok ? [] : read.issues, runChecks(subject)));
  if (!read.ok || issues.some(({ severity }) => severity === 'error')) return { ok: false, issues };
  const { id, flow, default_init_ctx, metadata } = read.blueprint;
  const metas: Record<string, JsonValue> = Object.create(null);
  for (const { name, ctx } of read.blueprint.metas ?? []) metas[name] = ctx;
  const compiled: Compiled = {
    id,
    flow,
    metas,
    ...(default_init_ctx != null && { default_init_ctx }),
    ...(metadata?.default_run_ttl_secs != null && { default_run_ttl_secs: metadata.default_run_ttl_secs }),
    agents: bakeAgents(read.blueprint, subject),
  };
  return { ok: true, compiled, warnings: issues };
}

function* concat<T>(...parts: readonly Iterable<T>[]): Generator<T> {
  for (const part of parts) yield* part;
}
