import { Stack } from 'aws-cdk-lib';
import { Construct } from 'constructs';
import { expect, test } from 'vitest';
import { keepParts } from '../../infra/parts.ts';

function stackOf(...paths: readonly string[]): Stack {
  const stack = new Stack();
  for (const path of paths) {
    const names = path.split('/');
    names.reduce<Construct>(
      (scope, name) => scope.node.tryFindChild(name) ?? new Construct(scope, name),
      stack,
    );
  }
  return stack;
}

function pathsOf(stack: Stack): string[] {
  return stack.node.findAll().map(({ node }) => node.path);
}

const PARTS = ['Store', 'Api/Rest', 'ApiUrl', 'Alarms/ServerErrors', 'Alarms/PlanFaults'];

test('all leaves out nothing', () => {
  const stack = stackOf(...PARTS);
  const before = pathsOf(stack);
  keepParts(stack, 'all');
  expect(pathsOf(stack)).toEqual(before);
});

test('core leaves out the API, its output and the alarm on it', () => {
  const stack = stackOf(...PARTS);
  keepParts(stack, 'core');
  expect(pathsOf(stack)).toEqual(['Default', 'Default/Store', 'Default/Alarms', 'Default/Alarms/PlanFaults']);
});

test('an unknown choice is told with those there are', () => {
  expect(() => keepParts(stackOf(), 'half')).toThrow('parts is "half"; allowed are all, core');
});

test('a stack without what is left out is our fault', () => {
  expect(() => keepParts(stackOf('Alarms'), 'core')).toThrow('the stack has no Api to leave out');
});
