/** What the functions share: middy around a direct handler and routes, settings, store. */
import middy from '@middy/core';
import type { Context } from 'aws-lambda';
import { readSettings, type Settings } from '../lib/config.ts';
import { StepspawnError } from '../lib/errors.ts';
import { isObject, type JsonObject, type JsonValue } from '../lib/json.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { openStore } from '../lib/store/open.ts';
import { errorAnswers, isRestEvent, type Route, routed } from './http.ts';
import { logFault, observed } from './observe.ts';

export interface Entry {
  /** a direct invocation: Step Functions, Invoke */
  readonly direct: (event: JsonObject, context: Context) => Promise<unknown>;
  /** REST proxy events */
  readonly routes: readonly Route[];
  /** whether every invocation needs the store, so that it is loaded while Lambda initialises */
  readonly needs_store: boolean;
}

/** A Lambda handler that takes direct invocations and REST proxy events. */
export function lambda({ direct, routes, needs_store }: Entry) {
  if (needs_store && process.env.AWS_LAMBDA_RUNTIME_API !== undefined) preload();
  const handle = middy(undefined, { timeoutEarlyInMillis: 0 })
    .use(errorAnswers(logFault))
    .handler(async (event: unknown, context: Context): Promise<unknown> => {
      if (isRestEvent(event)) return routed(routes, event, context);
      if (!isObject(event)) throw new StepspawnError('InvalidTask', 'the event is not a JSON object');
      return direct(event, context);
    });
  return (event: unknown, context: Context): Promise<unknown> =>
    observed(context, async () => handle(event, context));
}

/** What goes wrong here goes wrong again in the first invocation, which tells it. */
function preload(): void {
  environment()
    .then(({ store }) => store.connect?.())
    .catch(() => undefined);
}

let known: { readonly settings: Settings; readonly store: Promise<ObjectStore> } | undefined;

/** Settings and store of this execution environment; read once. Throws InvalidTask naming what is wrong. */
export async function environment(): Promise<{ readonly settings: Settings; readonly store: ObjectStore }> {
  known ??= open();
  const { settings, store } = known;
  return { settings, store: await store };
}

function open() {
  const settings = readSettings(process.env);
  if (settings.store_url === undefined)
    throw new StepspawnError('StoreUnavailable', 'the setting STORE_URL is not set');
  const store = Promise.resolve(openStore(settings.store_url)).catch((error: unknown) => {
    // what fails now may work the next time
    known = undefined;
    throw error;
  });
  return { settings, store };
}

/** A required member of a direct event or a body. Throws InvalidTask. */
export function required(value: JsonValue, name: string): JsonValue {
  const found = isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
  if (found === undefined) throw new StepspawnError('InvalidTask', `the request lacks '${name}'`);
  return found;
}

/** Where inline Blueprints are turned off, only registered ones run. Throws InvalidTask. */
export function checkInline(blueprint: JsonValue, settings: Settings): void {
  const registered = isObject(blueprint) && typeof blueprint.digest === 'string';
  if (settings.inline_blueprints || registered) return;
  throw new StepspawnError(
    'InvalidTask',
    'inline Blueprints are turned off here; register it and send {"digest": "sha256:..."}',
  );
}
