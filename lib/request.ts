/** A request as it comes over a border -> Task. */
import { randomBytes } from 'node:crypto';
import { checkSchema } from './blueprint/schema-issues.ts';
import { failWith } from './errors.ts';
import { isObject, type JsonValue } from './json.ts';
import { Task } from './task.ts';

/** Reads a request; with `made`, an absent task id is made up. Throws InvalidTask with an issue per wrong field. */
export function readTask(request: JsonValue, taskId: 'required' | 'made'): Task {
  const whole =
    taskId === 'made' && isObject(request) && !Object.hasOwn(request, 'task_id')
      ? { task_id: newTaskId(), ...request }
      : request;
  const issues = checkSchema(Task, whole);
  if (issues.length > 0) failWith('InvalidTask', issues);
  return Task.parse(whole);
}

export function newTaskId(): string {
  return `T-${randomBytes(16).toString('hex')}`;
}
