/** Every check beyond the schema. Each finds all it can find, also in what is left of an ill-shaped document. */
import type { Issue } from '../errors.ts';
import type { Subject } from './bindings.ts';
import { checkAgents, checkRunners } from './check-agents.ts';
import { checkFields, checkNames, checkReferences } from './check-document.ts';
import { checkFlow } from './check-flow.ts';
import { checkTemplates } from './check-templates.ts';
import { lintTemplates } from './lints.ts';

export const CHECKS: readonly ((subject: Subject) => Iterable<Issue>)[] = [
  checkNames,
  checkReferences,
  checkFields,
  checkAgents,
  checkRunners,
  checkTemplates,
  checkFlow,
  lintTemplates,
];

/** All issues of a document, one after the other, so that a caller can stop where it has enough. */
export function* runChecks(subject: Subject): Generator<Issue> {
  for (const check of CHECKS) yield* check(subject);
}
