/** Checks of the flow against the rest of the document: the agents and metas that its steps name. */
import type { Issue } from '../errors.ts';
import { isObject, member } from '../json.ts';
import type { Subject } from './bindings.ts';
import type { FlowNode, StepNode } from './flow-schema.ts';
import { error } from './issues.ts';
import { listed, nearest, quote } from './nearest.ts';
import type { Draft } from './read-blueprint.ts';

export function* checkFlow({ blueprint, named }: Subject): Generator<Issue> {
  const strict = blueprint.strategy?.strict_refs !== false;
  const { agents, metas } = named;
  const drops = blueprint.strategy?.strict_kind === false;
  for (const [step, pointer] of steps(blueprint.flow)) {
    const index = step.ref === undefined ? undefined : agents.get(step.ref);
    const kind = blueprint.agents?.[index ?? -1]?.kind ?? 'subprocess';
    if (strict && step.ref !== undefined && (index === undefined || (drops && kind !== 'subprocess'))) {
      const hint = agents.size > 1000 ? undefined : nearest(step.ref, agents.keys());
      const meant = hint === undefined || hint === step.ref ? '' : `; did you mean ${quote(hint)}?`;
      const why =
        index === undefined ? 'which is not declared' : `which is left out for its kind ${quote(kind)}`;
      const message = `step names agent ${quote(step.ref)}, ${why}${meant}; declared agents: ${listed(agents)}`;
      yield error('dangling_reference', `${pointer}/ref`, message);
    }
    const ref = metaRef(step);
    if (ref !== undefined && !metas.has(ref)) {
      const message = `$step_meta.ref ${quote(ref)} names no entry of metas; declared: ${listed(metas)}`;
      yield error('dangling_reference', `${pointer}/in/value/$step_meta/ref`, message);
    }
  }
}

/** The steps of a flow with their pointers, in document order. */
function* steps(flow: Draft<FlowNode> | undefined): Generator<[Draft<StepNode>, string]> {
  const waiting: [Draft<FlowNode> | undefined, string][] = [[flow, '/flow']];
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [node, pointer] = next;
    if (node?.kind === 'step') yield [node, pointer];
    else if (node) waiting.push(...children(node, pointer).reverse());
  }
}

function children(node: Draft<FlowNode>, at: string): [Draft<FlowNode> | undefined, string][] {
  switch (node.kind) {
    case 'seq':
      return (node.children ?? []).map((child, i) => [child, `${at}/children/${i}`]);
    case 'branch':
      return [
        [node.then, `${at}/then`],
        [node.else, `${at}/else`],
      ];
    case 'loop':
    case 'fanout':
      return [[node.body, `${at}/body`]];
    case 'try':
      return [
        [node.body, `${at}/body`],
        [node.catch, `${at}/catch`],
      ];
    default:
      return [];
  }
}

function metaRef({ in: input }: Draft<StepNode>): string | undefined {
  if (input?.op !== 'lit' || !isObject(input.value)) return undefined;
  const meta = member(input.value, '$step_meta');
  const ref = isObject(meta) ? member(meta, 'ref') : undefined;
  return typeof ref === 'string' ? ref : undefined;
}
