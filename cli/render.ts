import { previewCommand } from '../lib/child.ts';
import { launchContext, type PayloadOptions, readChecked, readDirective } from './blueprint-file.ts';
import { print } from './output.ts';

/** `stepspawn render`: the Command as JSON; starts and writes nothing. */
export async function renderCommandLine(file: string, options: PayloadOptions): Promise<void> {
  const blueprint = await readChecked(file);
  const command = await previewCommand({
    task_id: options.taskId ?? 'T-preview',
    attempt: options.attempt,
    agent: options.agent,
    blueprint,
    in: await readDirective(options),
    context: launchContext(options.workDir),
  });
  print(command);
}
