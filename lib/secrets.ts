/** Secrets by reference: a template names them, the operator maps the names, the value goes to the child only. */
import { readFile } from 'node:fs/promises';
import { StepspawnError } from './errors.ts';

/** Where secret values come from. */
export interface Secrets {
  /** the names that the operator mapped */
  readonly names: ReadonlySet<string>;
  /** The value of a mapped name. Throws StoreUnavailable when it cannot be read. */
  readonly resolve: (name: string) => Promise<string>;
}

/** No secret is mapped. */
export const NO_SECRETS: Secrets = {
  names: new Set(),
  resolve: async (name) => {
    throw new StepspawnError('StoreUnavailable', `secret '${name}' is not mapped`);
  },
};

const SOURCE = /^(?<kind>env|file):(?<place>.+)$/s;

/**
 * Secrets of this machine: name to `env:VARIABLE` or `file:PATH` (one trailing line break is dropped). Throws
 * InvalidTask for any other source.
 */
export function localSecrets(
  mapping: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>>,
): Secrets {
  const sources = new Map(Object.entries(mapping).map(([name, source]) => [name, parseSource(name, source)]));
  return {
    names: new Set(sources.keys()),
    resolve: async (name) => {
      const source = sources.get(name);
      if (source === undefined) return NO_SECRETS.resolve(name);
      const { kind, place } = source;
      const value = kind === 'env' ? environment[place] : await readSecret(name, place);
      if (value === undefined) throw unavailable(name, `environment variable ${place} is not set`);
      return value;
    },
  };
}

function parseSource(name: string, source: string): { readonly kind: string; readonly place: string } {
  const { kind, place } = SOURCE.exec(source)?.groups ?? {};
  if (kind === undefined || place === undefined) {
    throw new StepspawnError(
      'InvalidTask',
      `secret '${name}' has the source '${source}'; expected env:VARIABLE or file:PATH`,
    );
  }
  return { kind, place };
}

async function readSecret(name: string, path: string): Promise<string> {
  try {
    return (await readFile(path, 'utf8')).replace(/\r?\n$/, '');
  } catch (error) {
    const why = error instanceof Error && 'code' in error ? error.code : 'unknown';
    throw unavailable(name, `file ${path} cannot be read: ${why}`);
  }
}

function unavailable(name: string, why: string): StepspawnError {
  return new StepspawnError('StoreUnavailable', `secret '${name}' cannot be resolved: ${why}`);
}
