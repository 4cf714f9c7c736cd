/** `validate`: checks Blueprints and registers them. Never loads the store to check. */
import { failWith } from '../lib/errors.ts';
import { canonicalJson, digest, type JsonValue } from '../lib/json.ts';
import { blueprintKey } from '../lib/store/keys.ts';
import { validate } from '../lib/validate.ts';
import { environment, lambda, required } from './entry.ts';

export const handler = lambda({
  needs_store: false,
  direct: (event) => check(required(event, 'blueprint')),
  routes: [
    {
      method: 'POST',
      path: '/v1/validate',
      answer: async ({ body }) => ({ status: 200, body: await check(required(body, 'blueprint')) }),
    },
    {
      method: 'POST',
      path: '/v1/blueprints',
      answer: async ({ body }) => ({
        status: 201,
        body: { digest: await register(required(body, 'blueprint')) },
      }),
    },
  ],
});

async function check(blueprint: JsonValue) {
  const { ok, issues } = await validate(blueprint);
  return { ok, issues };
}

/** Stores a valid Blueprint under its digest; the same document again is the same object. */
async function register(blueprint: JsonValue): Promise<string> {
  const { ok, issues } = await validate(blueprint);
  if (!ok)
    failWith(
      'InvalidBlueprint',
      issues.filter(({ severity }) => severity === 'error'),
    );
  const name = digest(blueprint);
  const { store } = await environment();
  await store.create(blueprintKey(name), canonicalJson(blueprint));
  return name;
}
