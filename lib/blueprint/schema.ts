/** The closed schema of a Blueprint; `null` is accepted only where the reference's type is optional. */
import * as z from 'zod/mini';
import { AnyObject, Json, Seconds, Whole } from '../task.ts';
import { FlowNode } from './flow-schema.ts';
import { StringMap } from './map-schema.ts';
import { Condition, SubprocessOutput } from './output-schema.ts';

/** Versions of the document language that are understood: before 1.0 a minor version may break. */
export const SUPPORTED_VERSIONS = '0.1.x';
const SEMVER = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;

const Texts = z.array(z.string());
const Bytes = z.pipe(Whole, z.int().check(z.positive()));

export const AgentKind = z.enum(['lua', 'rust_fn', 'agent_block', 'subprocess', 'operator']);
export type AgentKind = z.infer<typeof AgentKind>;

export const StreamMode = z.enum(['ndjson_lines', 'sse_events', 'length_prefixed']);
export type StreamMode = z.infer<typeof StreamMode>;

export const ContextPolicy = z.strictObject({
  include: z.nullish(Texts),
  exclude: z.optional(Texts),
  steps: z.nullish(Texts),
  steps_exclude: z.optional(Texts),
});
export type ContextPolicy = z.infer<typeof ContextPolicy>;

export const AgentProfile = z.strictObject({
  system_prompt: z.optional(z.string()),
  model: z.nullish(z.string()),
  effort: z.nullish(z.string()),
  tools: z.optional(Texts),
  description: z.nullish(z.string()),
  extras: z.optional(Json),
  version_hash: z.nullish(z.string()),
  worker_binding: z.nullish(z.string()),
});
export type AgentProfile = z.infer<typeof AgentProfile>;

export const AgentMeta = z.strictObject({
  description: z.nullish(z.string()),
  version: z.nullish(z.string()),
  tags: z.optional(Texts),
  ctx: z.optional(Json),
  context_policy: z.nullish(ContextPolicy),
  meta_ref: z.nullish(z.string()),
  projection_name: z.nullish(z.string()),
});
export type AgentMeta = z.infer<typeof AgentMeta>;

export const SubprocessOverrides = z.strictObject({
  model: z.nullish(z.string()),
  tools: z.optional(Texts),
  cwd: z.nullish(z.string()),
});
export type SubprocessOverrides = z.infer<typeof SubprocessOverrides>;

export const Runner = z.discriminatedUnion('backend', [
  z.strictObject({ backend: z.literal('ws_operator'), variant: z.string(), tools: z.optional(Texts) }),
  z.strictObject({ backend: z.literal('ws_claude_code'), variant: z.string(), tools: z.optional(Texts) }),
  z.strictObject({ backend: z.literal('agent_block_in_process'), tools: z.optional(Texts) }),
  z.strictObject({
    backend: z.literal('subprocess'),
    template: z.string(),
    overrides: z.optional(SubprocessOverrides),
  }),
]);
export type Runner = z.infer<typeof Runner>;

export const AgentDef = z.strictObject({
  name: z.string(),
  kind: AgentKind,
  spec: z.optional(Json),
  profile: z.nullish(AgentProfile),
  meta: z.nullish(AgentMeta),
  runner: z.nullish(Runner),
  runner_ref: z.nullish(z.string()),
  verdict: z.optional(Json),
  lints: z.optional(Json),
});
export type AgentDef = z.infer<typeof AgentDef>;

/** Seconds may be fractional; bytes are whole; absent = the default of the entry. */
export const Limits = z.strictObject({
  timeout_secs: z.nullish(Seconds),
  silence_secs: z.nullish(Seconds),
  grace_secs: z.nullish(Seconds),
  stdout_bytes: z.nullish(Bytes),
  stderr_bytes: z.nullish(Bytes),
  artifact_bytes: z.nullish(Bytes),
});
export type Limits = z.infer<typeof Limits>;

/** When a result that is not ok makes a new attempt. */
export const Retry = z.strictObject({
  when: Condition,
  max_attempts: z.pipe(Whole, z.int().check(z.minimum(2), z.maximum(100))),
  backoff_secs: z.nullish(Seconds),
});
export type Retry = z.infer<typeof Retry>;

/** Files that are stored after the child ended; a required one that is missing fails the step. */
export const ArtifactDef = z.strictObject({ glob: z.string(), required: z.optional(z.boolean()) });
export type ArtifactDef = z.infer<typeof ArtifactDef>;

export const SubprocessDef = z.strictObject({
  name: z.string(),
  argv: Texts,
  stdin: z.nullish(z.string()),
  env: z.optional(StringMap),
  cwd: z.nullish(z.string()),
  output: z.nullish(SubprocessOutput),
  stream_mode: z.nullish(StreamMode),
  limits: z.nullish(Limits),
  secrets: z.optional(StringMap),
  retry: z.nullish(Retry),
  files: z.optional(StringMap),
  artifacts: z.optional(z.array(ArtifactDef)),
});
export type SubprocessDef = z.infer<typeof SubprocessDef>;

export const RunnerDef = z.strictObject({ name: z.string(), runner: Runner });
export type RunnerDef = z.infer<typeof RunnerDef>;

export const MetaDef = z.strictObject({ name: z.string(), ctx: Json });
export type MetaDef = z.infer<typeof MetaDef>;

const Metadata = z.strictObject({
  description: z.nullish(z.string()),
  origin: z.optional(AnyObject),
  tags: z.optional(Texts),
  version_label: z.nullish(z.string()),
  project_name_alias: z.nullish(z.string()),
  default_run_ttl_secs: z.nullish(Seconds),
  strict_verdict_handling: z.nullish(z.boolean()),
  lints: z.optional(Json),
});

const SchemaVersion = z.string().check(
  z.regex(SEMVER, { error: 'expected a full semantic version such as "0.1.0"', abort: true }),
  z.refine((version) => version.startsWith('0.1.'), `expected schema_version ${SUPPORTED_VERSIONS}`),
);

export const Blueprint = z.strictObject({
  schema_version: z.optional(SchemaVersion),
  id: z.string(),
  flow: FlowNode,
  agents: z.optional(z.array(AgentDef)),
  runners: z.optional(z.array(RunnerDef)),
  default_runner: z.nullish(z.string()),
  subprocesses: z.optional(z.array(SubprocessDef)),
  metas: z.optional(z.array(MetaDef)),
  default_init_ctx: z.optional(Json),
  default_agent_ctx: z.optional(Json),
  default_context_policy: z.nullish(ContextPolicy),
  strategy: z.optional(
    z.strictObject({
      strict_refs: z.optional(z.boolean()),
      strict_kind: z.optional(z.boolean()),
      strict_binding: z.optional(z.boolean()),
    }),
  ),
  metadata: z.optional(Metadata),
  hints: z.optional(z.strictObject({ per_agent: z.optional(AnyObject), global: z.optional(Json) })),
  operators: z.optional(z.array(Json)),
  audits: z.optional(z.array(Json)),
  projection_placement: z.optional(Json),
  default_operator_kind: z.optional(Json),
  degradation_policy: z.optional(Json),
  check_policy: z.optional(Json),
  spawner_hints: z.optional(AnyObject),
  blueprint_ref_includes: z.optional(z.array(Json)),
  default_agent_kind: z.optional(AgentKind),
});
export type Blueprint = z.infer<typeof Blueprint>;
