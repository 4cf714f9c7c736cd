import { runAttempt } from '../lib/attempt.ts';
import { newTaskId } from '../lib/request.ts';
import { launchContext, type PayloadOptions, readChecked, readDirective } from './blueprint-file.ts';
import { EXIT } from './output.ts';
import { type PortOptions, withPorts } from './ports.ts';
import { printResult } from './print-result.ts';

/** `stepspawn spawn`: one attempt; prints its result with the value inline. */
export async function spawnCommand(
  file: string,
  options: PayloadOptions & PortOptions & { readonly timeoutSecs?: number },
): Promise<void> {
  const blueprint = await readChecked(file);
  const directive = await readDirective(options);
  await withPorts(options, async (ports) => {
    const result = await runAttempt(
      {
        task_id: options.taskId ?? newTaskId(),
        attempt: options.attempt,
        agent: options.agent,
        blueprint,
        in: directive,
        context: launchContext(options.workDir),
        timeout_secs: options.timeoutSecs,
      },
      ports,
    );
    await printResult(ports.store, result);
    process.exitCode = result.ok ? EXIT.ok : EXIT.notPassed;
  });
}
