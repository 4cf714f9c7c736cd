/** A request whose template writes files and asks for an artifact; the content of one differs from attempt to attempt. */
import type { Task } from '../../lib/task.ts';
import { taskOf } from './attempts.ts';
import { oneStep } from './documents.ts';

export function withFiles(dir: string, task_id: string, secs: string): Task {
  const template = {
    argv: ['sh', '-c', `cat conf/where conf/x > out.txt; sleep ${secs}`],
    cwd: dir,
    files: { 'conf/where': '{system_file}', 'conf/x': 'x'.repeat(100_000), top: 't' },
    artifacts: [{ glob: 'out.txt', required: true }],
  };
  const blueprint = oneStep(template, {}, { profile: { system_prompt: 'be brief' } });
  return { ...taskOf(template, { task_id }), blueprint };
}
