/** A real store with faults put between it and its caller. */
import { StepspawnError } from '../../lib/errors.ts';
import type { ObjectStore } from '../../lib/store/object-store.ts';

/** fails: throws, nothing done · lost: done, but the answer never arrives as such · stalls: no answer · late: answers after 300 ms */
export type Fault = 'fails' | 'lost' | 'stalls' | 'late';
type Method = 'read' | 'create' | 'replace' | 'upload' | 'open' | 'list';

/** The calls that were made, as `method key`, and a store whose n-th call (from 0) of those that change or read it has the fault. */
export function faultyStore(
  store: ObjectStore,
  at: (call: number, what: string) => Fault | undefined,
): ObjectStore & { readonly calls: string[] } {
  const calls: string[] = [];
  const wrap = <K extends Method>(method: K): ObjectStore[K] =>
    (async (...args: [string]) => {
      const what = `${method} ${args[0]}`;
      const fault = at(calls.length, what);
      calls.push(what);
      if (fault === 'fails') throw new StepspawnError('StoreUnavailable', `injected failure of ${what}`);
      if (fault === 'stalls') return new Promise(() => undefined);
      if (fault === 'late') await new Promise((resolve) => setTimeout(resolve, 300));
      const answer = await (store[method] as (...rest: [string]) => Promise<unknown>)(...args);
      if (fault === 'lost')
        throw new StepspawnError('StoreUnavailable', `injected loss of the answer to ${what}`);
      return answer;
    }) as ObjectStore[K];
  return {
    url: store.url,
    calls,
    read: wrap('read'),
    create: wrap('create'),
    replace: wrap('replace'),
    upload: wrap('upload'),
    open: wrap('open'),
    list: wrap('list'),
  };
}
