/** A request as it comes over a border -> Task. */
import { randomBytes } from 'node:crypto';
import type * as z from 'zod/mini';
import { checkSchema } from './blueprint/schema-issues.ts';
import { walkDocument } from './blueprint/walk.ts';
import { failWith } from './errors.ts';
import { isObject, type JsonValue } from './json.ts';
import { Task } from './task.ts';

/** Reads a request; with `made`, an absent task id is made up. Throws InvalidTask with an issue per wrong field. */
export function readTask(request: JsonValue, taskId: 'required' | 'made'): Task {
  const whole =
    taskId === 'made' && isObject(request) && !Object.hasOwn(request, 'task_id')
      ? { task_id: newTaskId(), ...request }
      : request;
  return readAs(Task, whole);
}

/** A request of any form. Throws InvalidTask with an issue per wrong field. */
export function readAs<T>(schema: z.ZodMiniType<T>, value: JsonValue): T {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const issues = checkSchema(schema, value);
  // references are left to the walk, also where a request may not have any member of that name
  failWith('InvalidTask', issues.length > 0 ? issues : walkDocument(value));
}

export function newTaskId(): string {
  return `T-${randomBytes(16).toString('hex')}`;
}
