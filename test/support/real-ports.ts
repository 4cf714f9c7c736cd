/** Ports over real parts at given places: folder store, scratch, processes. */
import { baseEnvironment } from '../../lib/config.ts';
import type { RunPorts } from '../../lib/run.ts';
import { NO_SECRETS } from '../../lib/secrets.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { hostProcess } from '../../lib/worker/processes.ts';
import { openScratch } from '../../lib/worker/scratch.ts';
import { createSpawn } from '../../lib/worker/spawn.ts';
import { LAUNCHER } from './engines.ts';

const spawn = createSpawn(LAUNCHER);

/** `store` is the folder of the store, `root` that of the scratch; what is given replaces the default. */
export async function portsAt(store: string, root: string, given: Partial<RunPorts> = {}): Promise<RunPorts> {
  return {
    store: folderStore(store),
    scratch: await openScratch({ root }),
    spawn,
    base_env: baseEnvironment(process.env),
    secrets: NO_SECRETS,
    default_cwd: null,
    host: hostProcess(),
    cancel_poll: { first_ms: 200, then_ms: 200 },
    max_concurrency: 8,
    ...given,
  };
}
