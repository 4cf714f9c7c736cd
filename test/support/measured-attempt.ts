/**
 * One attempt in a process of its own that tells how much memory it took:
 * `node measured-attempt.ts STORE SCRATCH TASK_ID TEMPLATE` prints `{"result", "extra_bytes"}`.
 */
import { readFileSync } from 'node:fs';
import { runAttempt } from '../../lib/attempt.ts';
import { parseJson } from '../../lib/json.ts';
import { shell, taskOf } from './attempts.ts';
import { portsAt } from './real-ports.ts';

const [store = '', root = '', task_id = '', template = ''] = process.argv.slice(2);
const ports = await portsAt(store, root);
const run = (id: string, document: Parameters<typeof taskOf>[0]) =>
  runAttempt(taskOf(document, { task_id: id }), ports);
await run(`${task_id}-warm`, shell('echo 1'));
const idle = kilobytes('VmRSS');
const result = await run(task_id, parseJson(template) as Parameters<typeof taskOf>[0]);
await ports.scratch.close();
process.stdout.write(JSON.stringify({ result, extra_bytes: (kilobytes('VmHWM') - idle) * 1024 }));

function kilobytes(name: string): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]);
}
