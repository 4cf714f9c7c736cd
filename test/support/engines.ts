/** The ways in which children are started, for suites that run over each. */
import { readSettings } from '../../lib/config.ts';
import { createSpawn, type Spawn } from '../../lib/worker/spawn.ts';

/** The launcher that the tests compiled; null where there is no compiler. */
export const LAUNCHER: string | null = readSettings({ LAUNCHER: process.env.LAUNCHER }).launcher ?? null;

const BY_NODE = ['Node', createSpawn(null)] as const;

export const ENGINES: readonly (readonly [string, Spawn])[] =
  LAUNCHER === null ? [BY_NODE] : [['the launcher', createSpawn(LAUNCHER)], BY_NODE];
