/** Checks of the document as a whole: names, references between its parts, and fields this product cannot honour. */
import type { Issue } from '../errors.ts';
import { isObject, member } from '../json.ts';
import type { Subject } from './bindings.ts';
import { error, warning } from './issues.ts';
import { listed, quote } from './nearest.ts';

const NAMED = [
  ['agents', 'agent'],
  ['subprocesses', 'template'],
  ['runners', 'runner'],
  ['metas', 'metas'],
] as const;

/** Names that are declared twice in one list. */
export function* checkNames({ blueprint, named }: Subject): Generator<Issue> {
  for (const [field, noun] of NAMED) {
    const list = blueprint[field] ?? [];
    if (list.length === named[field].size) continue;
    for (let i = 0; i < list.length; i++) {
      const name = list[i]?.name;
      const first = name === undefined ? i : named[field].get(name);
      if (name === undefined || first === i) continue;
      const message = `duplicate ${noun} name ${quote(name)}; it is declared at /${field}/${first} already`;
      yield error('duplicate_name', `/${field}/${i}/name`, message);
    }
  }
}

/** `default_runner`, `meta_ref`, and contexts that are not objects. */
export function* checkReferences({ blueprint, bindings, named }: Subject): Generator<Issue> {
  const { runners, metas } = named;
  const ref = blueprint.default_runner;
  if (ref != null && !runners.has(ref)) {
    const message = `bound agent resolution: default_runner ${quote(ref)} is not declared; declared runners: ${listed(runners)}`;
    yield error('dangling_reference', '/default_runner', message);
  }
  for (const { agent, pointer } of bindings) {
    const meta = agent.meta?.meta_ref;
    if (meta == null || metas.has(meta)) continue;
    const message = `agent ${quote(agent.name ?? '')}: meta_ref ${quote(meta)} names no entry of metas; declared: ${listed(metas)}`;
    yield error('dangling_reference', `${pointer}/meta/meta_ref`, message);
  }
  for (const [i, meta] of (blueprint.metas ?? []).entries()) {
    if (meta?.ctx === undefined || isObject(meta.ctx)) continue;
    yield warning(
      'ignored_field',
      `/metas/${i}/ctx`,
      `metas ${quote(meta.name ?? '')}: ctx is not an object, so it adds nothing to a context`,
    );
  }
  const tier = blueprint.default_agent_ctx;
  if (tier != null && !isObject(tier)) {
    yield warning(
      'ignored_field',
      '/default_agent_ctx',
      'default_agent_ctx is not an object, so it adds nothing to a context',
    );
  }
}

const IGNORED = [
  'operators',
  'projection_placement',
  'default_operator_kind',
  'degradation_policy',
  'blueprint_ref_includes',
  'default_agent_kind',
  'spawner_hints',
  'check_policy',
] as const;

/** Fields that would change the meaning are refused; those that would not are named in a warning. */
export function* checkFields({ blueprint }: Subject): Generator<Issue> {
  const { audits, check_policy, spawner_hints, hints } = blueprint;
  const refuse = (path: string, why: string): Issue => error('unsupported_field', path, why);
  if (!isEmpty(audits))
    yield refuse(
      '/audits',
      'audits are not supported: they would dispatch agents; write them as steps of the flow',
    );
  if (check_policy === 'strict')
    yield refuse('/check_policy', 'check_policy "strict" is not supported; leave it out');
  if (spawner_hints && !isEmpty(member(spawner_hints, 'layers'))) {
    yield refuse('/spawner_hints/layers', 'spawner_hints.layers are not supported; leave them out');
  } else {
    for (const field of IGNORED) {
      if (isEmpty(blueprint[field]) && field !== 'spawner_hints') continue;
      if (blueprint[field] == null || blueprint[field] === 'strict') continue;
      yield warning(
        'ignored_field',
        `/${field}`,
        `${field} is ignored: it has no meaning for subprocess agents`,
      );
    }
  }
  if (!isEmpty(hints?.per_agent)) {
    yield warning(
      'ignored_field',
      '/hints/per_agent',
      'hints.per_agent is ignored: a template is named by a runner only',
    );
  }
  if (!isEmpty(hints?.global)) yield warning('ignored_field', '/hints/global', 'hints.global is ignored');
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined) return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
