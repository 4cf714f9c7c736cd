import { randomBytes } from 'node:crypto';
import { runFlow } from '../lib/run.ts';
import { launchContext, parseOption, readChecked } from './blueprint-file.ts';
import { EXIT, print, say, UsageError } from './output.ts';
import { type PortOptions, withPorts } from './ports.ts';
import { showProgress } from './progress.ts';

export interface RunOptions extends PortOptions {
  readonly ctx?: string;
  readonly workDir?: string;
  readonly runId?: string;
  readonly retry?: boolean;
  readonly ttlSecs?: number;
  readonly maxConcurrency: number;
}

/** `stepspawn run`: the whole flow; prints the final context, or what failed. */
export async function runCommand(file: string, options: RunOptions): Promise<void> {
  if (options.retry && options.runId === undefined)
    throw new UsageError('--retry needs the --run-id of the run that failed');
  const blueprint = await readChecked(file);
  const ctx = options.ctx === undefined ? undefined : parseOption('--ctx', options.ctx);
  const run_id = options.runId ?? `R-${randomBytes(8).toString('hex')}`;
  await withPorts(options, async (ports) => {
    const progress = showProgress(process.stderr);
    say(`run ${run_id}`);
    try {
      const ended = await runFlow(
        {
          run_id,
          blueprint,
          ctx,
          context: launchContext(options.workDir),
          retry: options.retry,
          ttl_secs: options.ttlSecs,
        },
        { ...ports, max_concurrency: options.maxConcurrency, onProgress: progress.tell },
      );
      const { status, error, ctx: final, totals } = ended;
      const about = { run_id, status, ...(totals && { totals }) };
      print(status === 'done' ? { ...about, ctx: final } : { ...about, error });
      process.exitCode = status === 'done' ? EXIT.ok : EXIT.notPassed;
    } finally {
      progress.stop();
    }
  });
}
