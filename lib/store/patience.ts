/** A store that answers in time or counts as unavailable, so that no caller waits for ever. */
import { StepspawnError } from '../errors.ts';
import type { ObjectStore } from './object-store.ts';

/** Calls on single small objects must settle within `ms`; uploads and streams have their caller's deadline. */
export function withPatience(store: ObjectStore, ms: number): ObjectStore {
  const bounded = <A extends readonly unknown[], T>(name: string, call: (...args: A) => Promise<T>) => {
    return (...args: A): Promise<T> => inTime(call(...args), ms, `${name} ${args[0]}`);
  };
  return {
    ...store,
    read: bounded('read', store.read),
    create: bounded('create', store.create),
    replace: bounded('replace', store.replace),
    list: bounded('list', store.list),
  };
}

/** The promise, or StoreUnavailable when it has not settled after `ms`. */
export async function inTime<T>(promise: Promise<T>, ms: number, what: string): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(
    () => reject(new StepspawnError('StoreUnavailable', `the store did not answer within ${ms} ms: ${what}`)),
    Math.min(ms, 2 ** 31 - 1),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
