/** Real ports in a folder of their own: folder store, scratch, processes. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import { baseEnvironment } from '../../lib/config.ts';
import type { RunPorts } from '../../lib/run.ts';
import { NO_SECRETS } from '../../lib/secrets.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { hostProcess } from '../../lib/worker/processes.ts';
import { openScratch } from '../../lib/worker/scratch.ts';
import { spawn } from '../../lib/worker/spawn.ts';

/** A folder that is removed after the tests of the file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'stepspawn-test-'));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Ports over a fresh store and scratch in `folder`; what is given replaces the default. */
export async function realPorts(folder: string, given: Partial<RunPorts> = {}): Promise<RunPorts> {
  const root = mkdtempSync(join(folder, 'scratch-'));
  return {
    store: folderStore(mkdtempSync(join(folder, 'store-'))),
    scratch: await openScratch({ root }),
    spawn,
    base_env: baseEnvironment(process.env),
    secrets: NO_SECRETS,
    default_cwd: null,
    host: hostProcess(),
    cancel_poll_ms: 200,
    max_concurrency: 8,
    ...given,
  };
}
