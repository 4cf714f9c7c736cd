/** One attempt in a process of its own, to be killed from outside: `node attempt-process.ts STORE SCRATCH TASK_ID SCRIPT`. */
import { runAttempt } from '../../lib/attempt.ts';
import { baseEnvironment } from '../../lib/config.ts';
import { NO_SECRETS } from '../../lib/secrets.ts';
import { folderStore } from '../../lib/store/folder.ts';
import { hostProcess } from '../../lib/worker/processes.ts';
import { openScratch } from '../../lib/worker/scratch.ts';
import { spawn } from '../../lib/worker/spawn.ts';
import { taskOf } from './attempts.ts';

const [store = '', root = '', task_id = '', script = ''] = process.argv.slice(2);
const result = await runAttempt(taskOf({ argv: ['sh', '-c', script] }, { task_id }), {
  store: folderStore(store),
  scratch: await openScratch({ root }),
  spawn,
  base_env: baseEnvironment(process.env),
  secrets: NO_SECRETS,
  default_cwd: null,
  host: hostProcess(),
  cancel_poll_ms: 1000,
});
process.stdout.write(JSON.stringify(result));
