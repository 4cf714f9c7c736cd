/** Which parts of the stack are deployed: `-c parts=core` leaves out the REST API and what watches it. */
import type { Stack } from 'aws-cdk-lib';
import { StepspawnError } from '../lib/errors.ts';

/** What each choice leaves out: paths of constructs. */
const LEFT_OUT = {
  all: [],
  core: ['Api', 'ApiUrl', 'Alarms/ServerErrors'],
} as const satisfies Record<string, readonly string[]>;

/** Leaves of the stack what `parts` names. Throws InvalidTask when there is no such choice. */
export function keepParts(stack: Stack, parts: unknown): void {
  const left = Object.entries(LEFT_OUT).find(([name]) => name === parts)?.[1];
  if (!left) {
    const allowed = Object.keys(LEFT_OUT).join(', ');
    throw new StepspawnError('InvalidTask', `parts is ${JSON.stringify(parts)}; allowed are ${allowed}`);
  }
  for (const path of left) {
    const names = path.split('/');
    const name = names.pop() ?? '';
    const parent = names.reduce((node, each) => node.findChild(each).node, stack.node);
    if (!parent.tryRemoveChild(name)) throw new Error(`the stack has no ${path} to leave out`);
  }
}
