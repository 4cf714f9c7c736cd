/**
 * Invokes the built `spawn` function in this process, once with `true` and then with a template: `node invoke.mjs HANDLER
 * TEMPLATE` prints a `MeasuredAttempt`. Store and scratch come from the function's own settings.
 */
import type { JsonObject } from '../../lib/json.ts';
import type { TaskResult } from '../../lib/task.ts';
import { peakBytes } from './memory.ts';

export interface MeasuredAttempt {
  readonly result: TaskResult;
  readonly ms: number;
  /** the most memory that the process had resident */
  readonly peak_bytes: number;
}

const [path = '', template = ''] = process.argv.slice(2);
process.env.POWERTOOLS_METRICS_DISABLED = 'true';
process.env.POWERTOOLS_LOG_LEVEL = 'ERROR';
const { handler } = (await import(path)) as {
  handler: (event: unknown, context: unknown) => Promise<TaskResult>;
};
const context = { awsRequestId: 'bench', getRemainingTimeInMillis: () => 3_600_000 };
await handler(taskOf('warm', { argv: ['true'] }), context);
const begun = performance.now();
const result = await handler(taskOf('measured', JSON.parse(template)), context);
const ms = performance.now() - begun;
process.stdout.write(JSON.stringify({ result, ms, peak_bytes: peakBytes() } satisfies MeasuredAttempt));

function taskOf(task_id: string, given: JsonObject) {
  const agent = { name: 'w', kind: 'subprocess', runner: { backend: 'subprocess', template: 't' } };
  const subprocess = { name: 't', ...given };
  const flow = { kind: 'seq', children: [] };
  return {
    task_id,
    agent: 'w',
    blueprint: { id: 'bench', flow, agents: [agent], subprocesses: [subprocess] },
    in: '',
  };
}
