/** What the terminal brings along for attempts: store, scratch, environment, interruption. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { baseEnvironment, readSettings } from '../lib/config.ts';
import type { AttemptPorts } from '../lib/ports.ts';
import { localSecrets } from '../lib/secrets.ts';
import type { ObjectStore } from '../lib/store/object-store.ts';
import { openStore } from '../lib/store/open.ts';
import { hostProcess } from '../lib/worker/processes.ts';
import { openScratch } from '../lib/worker/scratch.ts';
import { createSpawn } from '../lib/worker/spawn.ts';
import { EXIT, say, UsageError } from './output.ts';

const CANCEL_POLL = { first_ms: 1000, then_ms: 1000 };

export function chosenStore(url: string | undefined): ObjectStore {
  const settings = readSettings(process.env);
  return openStore(url ?? settings.store_url ?? pathToFileURL(join(currentFolder(), '.stepspawn')).href);
}

function currentFolder(): string {
  try {
    return process.cwd();
  } catch {
    throw new UsageError('the current directory no longer exists');
  }
}

export interface PortOptions {
  /** store URL; the setting or this directory when absent */
  readonly store?: string;
  /** secret name to its source */
  readonly secret?: Readonly<Record<string, string>>;
}

/**
 * Calls `use` with everything an attempt needs. A signal interrupts it: children are ended, claims given back,
 * and the exit code is 130.
 */
export async function withPorts(
  { store: url, secret }: PortOptions,
  use: (ports: AttemptPorts) => Promise<void>,
): Promise<void> {
  const settings = readSettings(process.env);
  const store = chosenStore(url);
  const scratch = await openScratch({ root: settings.scratch_dir, homeSeed: settings.home_seed });
  const controller = new AbortController();
  const interrupt = (signal: NodeJS.Signals): void => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted);
    say(`${signal}: ending what runs; once more to leave at once`);
    controller.abort('interrupted');
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, interrupt);
  try {
    await use({
      store,
      scratch,
      spawn: createSpawn(settings.launcher),
      base_env: baseEnvironment(process.env),
      secrets: localSecrets(secret ?? {}, process.env),
      default_cwd: currentFolder(),
      host: hostProcess(),
      cancel_poll: CANCEL_POLL,
      signal: controller.signal,
    });
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  } finally {
    await scratch.close();
    for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(name, interrupt);
    if (controller.signal.aborted) process.exitCode = EXIT.interrupted;
  }
}
