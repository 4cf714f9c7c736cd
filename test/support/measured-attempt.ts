/**
 * One attempt in a process of its own that tells how much memory it took:
 * `node measured-attempt.ts STORE SCRATCH TASK_ID TEMPLATE` prints `{"result", "extra_bytes"}`.
 */
import { readFileSync } from 'node:fs';
import { runAttempt } from '../../lib/attempt.ts';
import { baseEnvironment } from '../../lib/config.ts';
import { parseJson } from '../../lib/json.ts';
import { NO_SECRETS } from '../../lib/secrets.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { hostProcess } from '../../lib/worker/processes.ts';
import { openScratch } from '../../lib/worker/scratch.ts';
import { spawn } from '../../lib/worker/spawn.ts';
import { shell, taskOf } from './attempts.ts';

const [store = '', root = '', task_id = '', template = ''] = process.argv.slice(2);
const scratch = await openScratch({ root });
const run = (id: string, document: Parameters<typeof taskOf>[0]) =>
  runAttempt(taskOf(document, { task_id: id }), {
    store: folderStore(store),
    scratch,
    spawn,
    base_env: baseEnvironment(process.env),
    secrets: NO_SECRETS,
    default_cwd: null,
    host: hostProcess(),
    cancel_poll_ms: 1000,
  });
await run(`${task_id}-warm`, shell('echo 1'));
const idle = kilobytes('VmRSS');
const result = await run(task_id, parseJson(template) as Parameters<typeof taskOf>[0]);
await scratch.close();
process.stdout.write(JSON.stringify({ result, extra_bytes: (kilobytes('VmHWM') - idle) * 1024 }));

function kilobytes(name: string): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1]);
}
