/** A store whose small calls are tried again, for callers that cannot go on without an answer. */
import { StepspawnError } from '../errors.ts';
import type { ObjectStore } from './object-store.ts';
import { withPatience } from './patience.ts';

const TRIES = 4;
const FIRST_PAUSE_MS = 100;

/**
 * Each call on a small object may take `ms` and is tried up to four times while the store is unavailable. A write whose
 * answer was lost finds itself written: callers look at what is there when create or replace says false.
 */
export function steadyStore(store: ObjectStore, ms: number): ObjectStore {
  const patient = withPatience(store, ms);
  const again = <A extends readonly unknown[], T>(call: (...args: A) => Promise<T>) => {
    return async (...args: A): Promise<T> => {
      for (let tried = 1, pause = FIRST_PAUSE_MS; ; tried++, pause *= 4) {
        try {
          return await call(...args);
        } catch (error) {
          const retryable = error instanceof StepspawnError && error.code === 'StoreUnavailable';
          if (!retryable || tried >= TRIES) throw error;
          await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random() / 2)));
        }
      }
    };
  };
  return {
    ...patient,
    read: again(patient.read),
    create: again(patient.create),
    replace: again(patient.replace),
    list: again(patient.list),
  };
}
