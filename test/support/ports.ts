/** Real ports in a folder that is removed after the tests of a file. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';
import type { RunPorts } from '../../lib/run.ts';
import { portsAt } from './real-ports.ts';

/** A folder that is removed after the tests of the file. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'stepspawn-test-'));
  afterAll(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Ports over a fresh store and scratch in `folder`; what is given replaces the default. */
export function realPorts(folder: string, given: Partial<RunPorts> = {}): Promise<RunPorts> {
  return portsAt(mkdtempSync(join(folder, 'store-')), mkdtempSync(join(folder, 'scratch-')), given);
}
