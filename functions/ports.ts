/** What a Lambda execution environment brings along for attempts; kept warm between invocations. */
import type { Context } from 'aws-lambda';
import { baseEnvironment } from '../lib/config.ts';
import type { AttemptPorts } from '../lib/ports.ts';
import { awsSecrets } from '../lib/secrets-aws.ts';
import { openScratch, type ScratchRoot } from '../lib/worker/scratch.ts';
import { spawn } from '../lib/worker/spawn.ts';
import { environment } from './entry.ts';

const CANCEL_POLL_MS = 4000;
let scratch: Promise<ScratchRoot> | undefined;

/** Ports with the deadline of this invocation; `onChildEnd` is told how long the child ran. */
export async function lambdaPorts(context: Context, onChildEnd: (ms: number) => void): Promise<AttemptPorts> {
  const { settings, store } = await environment();
  scratch ??= openScratch({ root: settings.scratch_dir, homeSeed: settings.home_seed });
  return {
    store,
    scratch: await scratch,
    spawn,
    base_env: baseEnvironment(process.env),
    secrets: awsSecrets(settings.secrets, process.env),
    default_cwd: null,
    host: null,
    cancel_poll_ms: CANCEL_POLL_MS,
    platform_deadline: Date.now() + context.getRemainingTimeInMillis(),
    onChildEnd,
  };
}
