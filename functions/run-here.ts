/** Goes on with a run in this process; loaded only where no workflow is configured. */
import type { Context } from 'aws-lambda';
import { runFlow } from '../lib/run.ts';
import type { RunRequest } from '../lib/start-run.ts';
import { logFault } from './observe.ts';
import { goesOn, lambdaPorts } from './ports.ts';

/** steps of one run that run at once in this process */
const MAX_CONCURRENCY = 8;

/** Returns at once; what the run comes to lies in the store. */
export async function runHere(request: RunRequest, context: Context): Promise<void> {
  const ports = await lambdaPorts(context, () => undefined);
  goesOn(runFlow(request, { ...ports, max_concurrency: MAX_CONCURRENCY })).catch(logFault);
}
