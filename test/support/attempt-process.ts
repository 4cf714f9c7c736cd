/**
 * One attempt in a process of its own, to be killed: `node attempt-process.ts STORE SCRATCH TASK_ID SCRIPT`. Its pid is in
 * the file `pid` of the scratch.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runAttempt } from '../../lib/attempt.ts';
import { taskOf } from './attempts.ts';
import { portsAt } from './real-ports.ts';

const [store = '', root = '', task_id = '', script = ''] = process.argv.slice(2);
writeFileSync(join(root, 'pid'), String(process.pid));
const result = await runAttempt(
  taskOf({ argv: ['sh', '-c', script] }, { task_id }),
  await portsAt(store, root),
);
process.stdout.write(JSON.stringify(result));
