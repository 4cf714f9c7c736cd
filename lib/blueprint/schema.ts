/** The closed schema of a Blueprint; `null` is accepted only where the reference's type is optional. */
import * as z from 'zod';
import { AnyObject, Json, Seconds, Whole } from '../task.ts';
import { FlowNode } from './flow-schema.ts';
import { StringMap } from './map-schema.ts';
import { Condition, SubprocessOutput } from './output-schema.ts';

/** Versions of the document language that are understood: before 1.0 a minor version may break. */
export const SUPPORTED_VERSIONS = '0.1.x';
const SEMVER = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$/;

const Texts = z.array(z.string());
const Bytes = Whole.pipe(z.int().positive());

export const AgentKind = z.enum(['lua', 'rust_fn', 'agent_block', 'subprocess', 'operator']);
export type AgentKind = z.infer<typeof AgentKind>;

export const StreamMode = z.enum(['ndjson_lines', 'sse_events', 'length_prefixed']);
export type StreamMode = z.infer<typeof StreamMode>;

export const ContextPolicy = z.strictObject({
  include: Texts.nullish(),
  exclude: Texts.optional(),
  steps: Texts.nullish(),
  steps_exclude: Texts.optional(),
});
export type ContextPolicy = z.infer<typeof ContextPolicy>;

export const AgentProfile = z.strictObject({
  system_prompt: z.string().optional(),
  model: z.string().nullish(),
  effort: z.string().nullish(),
  tools: Texts.optional(),
  description: z.string().nullish(),
  extras: Json.optional(),
  version_hash: z.string().nullish(),
  worker_binding: z.string().nullish(),
});
export type AgentProfile = z.infer<typeof AgentProfile>;

export const AgentMeta = z.strictObject({
  description: z.string().nullish(),
  version: z.string().nullish(),
  tags: Texts.optional(),
  ctx: Json.optional(),
  context_policy: ContextPolicy.nullish(),
  meta_ref: z.string().nullish(),
  projection_name: z.string().nullish(),
});
export type AgentMeta = z.infer<typeof AgentMeta>;

export const SubprocessOverrides = z.strictObject({
  model: z.string().nullish(),
  tools: Texts.optional(),
  cwd: z.string().nullish(),
});
export type SubprocessOverrides = z.infer<typeof SubprocessOverrides>;

export const Runner = z.discriminatedUnion('backend', [
  z.strictObject({ backend: z.literal('ws_operator'), variant: z.string(), tools: Texts.optional() }),
  z.strictObject({ backend: z.literal('ws_claude_code'), variant: z.string(), tools: Texts.optional() }),
  z.strictObject({ backend: z.literal('agent_block_in_process'), tools: Texts.optional() }),
  z.strictObject({
    backend: z.literal('subprocess'),
    template: z.string(),
    overrides: SubprocessOverrides.optional(),
  }),
]);
export type Runner = z.infer<typeof Runner>;

export const AgentDef = z.strictObject({
  name: z.string(),
  kind: AgentKind,
  spec: Json.optional(),
  profile: AgentProfile.nullish(),
  meta: AgentMeta.nullish(),
  runner: Runner.nullish(),
  runner_ref: z.string().nullish(),
  verdict: Json.optional(),
  lints: Json.optional(),
});
export type AgentDef = z.infer<typeof AgentDef>;

/** Seconds may be fractional; bytes are whole; absent = the default of the entry. */
export const Limits = z.strictObject({
  timeout_secs: Seconds.nullish(),
  silence_secs: Seconds.nullish(),
  grace_secs: Seconds.nullish(),
  stdout_bytes: Bytes.nullish(),
  stderr_bytes: Bytes.nullish(),
  artifact_bytes: Bytes.nullish(),
});
export type Limits = z.infer<typeof Limits>;

/** When a result that is not ok makes a new attempt. */
export const Retry = z.strictObject({
  when: Condition,
  max_attempts: Whole.pipe(z.int().min(2).max(100)),
  backoff_secs: Seconds.nullish(),
});
export type Retry = z.infer<typeof Retry>;

/** Files that are stored after the child ended; a required one that is missing fails the step. */
export const ArtifactDef = z.strictObject({ glob: z.string(), required: z.boolean().optional() });
export type ArtifactDef = z.infer<typeof ArtifactDef>;

export const SubprocessDef = z.strictObject({
  name: z.string(),
  argv: Texts,
  stdin: z.string().nullish(),
  env: StringMap.optional(),
  cwd: z.string().nullish(),
  output: SubprocessOutput.nullish(),
  stream_mode: StreamMode.nullish(),
  limits: Limits.nullish(),
  secrets: StringMap.optional(),
  retry: Retry.nullish(),
  files: StringMap.optional(),
  artifacts: z.array(ArtifactDef).optional(),
});
export type SubprocessDef = z.infer<typeof SubprocessDef>;

export const RunnerDef = z.strictObject({ name: z.string(), runner: Runner });
export type RunnerDef = z.infer<typeof RunnerDef>;

export const MetaDef = z.strictObject({ name: z.string(), ctx: Json });
export type MetaDef = z.infer<typeof MetaDef>;

const Metadata = z.strictObject({
  description: z.string().nullish(),
  origin: AnyObject.optional(),
  tags: Texts.optional(),
  version_label: z.string().nullish(),
  project_name_alias: z.string().nullish(),
  default_run_ttl_secs: Seconds.nullish(),
  strict_verdict_handling: z.boolean().nullish(),
  lints: Json.optional(),
});

const SchemaVersion = z
  .string()
  .regex(SEMVER, { error: 'expected a full semantic version such as "0.1.0"', abort: true })
  .refine((version) => version.startsWith('0.1.'), `expected schema_version ${SUPPORTED_VERSIONS}`);

export const Blueprint = z.strictObject({
  schema_version: SchemaVersion.optional(),
  id: z.string(),
  flow: FlowNode,
  agents: z.array(AgentDef).optional(),
  runners: z.array(RunnerDef).optional(),
  default_runner: z.string().nullish(),
  subprocesses: z.array(SubprocessDef).optional(),
  metas: z.array(MetaDef).optional(),
  default_init_ctx: Json.optional(),
  default_agent_ctx: Json.optional(),
  default_context_policy: ContextPolicy.nullish(),
  strategy: z
    .strictObject({
      strict_refs: z.boolean().optional(),
      strict_kind: z.boolean().optional(),
      strict_binding: z.boolean().optional(),
    })
    .optional(),
  metadata: Metadata.optional(),
  hints: z.strictObject({ per_agent: AnyObject.optional(), global: Json.optional() }).optional(),
  operators: z.array(Json).optional(),
  audits: z.array(Json).optional(),
  projection_placement: Json.optional(),
  default_operator_kind: Json.optional(),
  degradation_policy: Json.optional(),
  check_policy: Json.optional(),
  spawner_hints: AnyObject.optional(),
  blueprint_ref_includes: z.array(Json).optional(),
  default_agent_kind: AgentKind.optional(),
});
export type Blueprint = z.infer<typeof Blueprint>;
