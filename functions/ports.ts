/** What a Lambda execution environment brings along for attempts; kept warm between invocations. */
import type { Context } from 'aws-lambda';
import { baseEnvironment } from '../lib/config.ts';
import type { AttemptPorts } from '../lib/ports.ts';
import { awsSecrets } from '../lib/secrets-aws.ts';
import { lookAgain } from '../lib/worker/descriptors.ts';
import { hostProcess } from '../lib/worker/processes.ts';
import { openScratch, type ScratchRoot } from '../lib/worker/scratch.ts';
import { createSpawn, type Spawn } from '../lib/worker/spawn.ts';
import { environment } from './entry.ts';

/** A look at the cancel marker costs a request, unless the store is a folder here; a child is to end within 5 s of it. */
const CANCEL_POLL = {
  remote: { first_ms: 5000, then_ms: 2000 },
  folder: { first_ms: 1000, then_ms: 1000 },
};
let spawn: Spawn | undefined;
let scratch: Promise<ScratchRoot> | undefined;
let host: ReturnType<typeof hostProcess> | undefined;

/** Ports with the deadline of this invocation; `onChildEnd` is told how long the child ran. */
export async function lambdaPorts(context: Context, onChildEnd: (ms: number) => void): Promise<AttemptPorts> {
  const { settings, store } = await environment();
  const isFolder = store.url.startsWith('file:');
  // the Runtime Interface Client opens connections that a child would inherit
  if (process.env.AWS_LAMBDA_RUNTIME_API) lookAgain();
  scratch ??= openScratch({ root: settings.scratch_dir, homeSeed: settings.home_seed }).catch((error) => {
    // what fails now may work the next time
    scratch = undefined;
    throw error;
  });
  if (isFolder) host ??= hostProcess();
  spawn ??= createSpawn(settings.launcher);
  return {
    store,
    scratch: await scratch,
    spawn,
    base_env: baseEnvironment(process.env),
    secrets: awsSecrets(settings.secrets, process.env),
    default_cwd: null,
    host: host ?? null,
    cancel_poll: isFolder ? CANCEL_POLL.folder : CANCEL_POLL.remote,
    child_user: settings.child_user,
    platform_deadline: Date.now() + context.getRemainingTimeInMillis(),
    signal: shutdown.signal,
    onChildEnd,
  };
}

const background = new Set<Promise<unknown>>();
const shutdown = new AbortController();

/** Keeps account of work that goes on after its caller was answered. */
export function goesOn<T>(work: Promise<T>): Promise<T> {
  const ended = work.then(
    () => undefined,
    () => undefined,
  );
  background.add(ended);
  void ended.then(() => background.delete(ended));
  return work;
}

/**
 * Lets what runs come to its end for `patience` milliseconds, then interrupts it: children are ended and claims given
 * back. Then removes this process's scratch. False when something had to be interrupted.
 */
export async function closePorts(patience: number): Promise<boolean> {
  const all = (): Promise<unknown> => Promise.all([...background]);
  const late = AbortSignal.timeout(patience);
  await Promise.race([
    all(),
    new Promise((resolve) => late.addEventListener('abort', resolve, { once: true })),
  ]);
  const clean = background.size === 0;
  shutdown.abort('interrupted');
  await all();
  await (await scratch)?.close();
  return clean;
}
