/** One attempt that writes files, to be killed from outside: `node attempt-with-files.ts ROOT DIR TASK_ID [SECONDS]`. */
import { join } from 'node:path';
import { runAttempt } from '../../lib/attempt.ts';
import { portsAt } from './real-ports.ts';
import { withFiles } from './with-files.ts';

const [root = '', dir = '', task_id = '', secs = '0.4'] = process.argv.slice(2);
const ports = await portsAt(join(root, 'store'), root);
process.stdout.write(JSON.stringify(await runAttempt(withFiles(dir, task_id, secs), ports)));
