/** SpawnStep: what it refuses; what it synthesises is in stack.test.ts. */
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { describe, expect, test } from 'vitest';
import { SpawnStep } from '../../infra/spawn-step.ts';

describe('SpawnStep', () => {
  const stackWithWorker = () => {
    const stack = new Stack(new App(), 'own');
    return { stack, worker: LambdaFunction.fromFunctionName(stack, 'Worker', 'worker') };
  };
  const step = { blueprint: `sha256:${'0'.repeat(64)}`, agent: 'a' };

  test('limits that do not contain each other are refused by name', () => {
    const { stack, worker } = stackWithWorker();
    const seconds = Duration.seconds;
    expect(
      () =>
        new SpawnStep(stack, 'A', {
          ...step,
          worker,
          childTimeout: seconds(100),
          functionTimeout: seconds(110),
        }),
    ).toThrow(
      "step 'A': functionTimeout=110 is too short: it contains childTimeout=100; allowed is 115 or more",
    );
    expect(() => new SpawnStep(stack, 'B', { ...step, worker, taskTimeout: seconds(900) })).toThrow(
      "step 'B': taskTimeout=900 is too short: it contains functionTimeout=900; allowed is 910 or more",
    );
  });

  test('an id from which no task id can be made asks for one', () => {
    const { stack, worker } = stackWithWorker();
    const long = 'x'.repeat(60);
    expect(() => new SpawnStep(stack, long, { ...step, worker })).toThrow(
      /longer than 47 characters; give taskId/,
    );
    expect(() => new SpawnStep(stack, long, { ...step, worker, taskId: 'T-1' })).not.toThrow();
  });
});
