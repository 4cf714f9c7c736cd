import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { shell, taskOf } from '../support/attempts.ts';
import { readCases } from '../support/cases.ts';
import { inside, podman } from '../support/containers.ts';
import type { Environment } from '../support/runtime-api.ts';
import { parsed, resultOf, spawnImage } from '../support/spawn-image.ts';

const { make, stored, shared } = spawnImage();

/** All but spare pipes and spare directories, which are as good as new. */
function temporaryFiles({ box }: Environment): Promise<string> {
  return inside(box, 'find /tmp ! -type p ! -path "*/untouched-*" | sort');
}

/** `name state` of every process but those that look. */
async function processes({ box }: Environment): Promise<string[]> {
  const lines = await inside(box, 'for f in /proc/[0-9]*/stat; do cat "$f"; done 2>/dev/null');
  return lines
    .trim()
    .split('\n')
    .map((line) => /\((.*)\) (\w) /.exec(line))
    .flatMap((found) => (found && !['sh', 'cat'].includes(found[1]!) ? [`${found[1]} ${found[2]}`] : []))
    .sort();
}

test('a warm series of 50 leaves files and processes as they were, orphans and all', async () => {
  const lambda = make();
  const first = resultOf(await lambda.invoke(taskOf(shell('echo 1'))));
  expect(first.ok).toBe(true);
  const [environment] = lambda.environments();
  const before = [await temporaryFiles(environment!), await processes(environment!)];
  const scripts = [
    'echo 1',
    'head -c 5000000 /dev/zero > "$HOME/cache"; cp "$HOME/cache" "$TMPDIR/x"; echo 1',
    'nohup sleep 300 >/dev/null 2>&1 & echo 1',
    '(setsid sh -c "sleep 0.05; exec sleep 0.05" &) ; (sh -c "sh -c \\"exit 3\\" & sh -c \\"exit 4\\" &" &); echo 1',
  ];
  for (let i = 0; i < 50; i++) {
    const answer = await lambda.invoke(taskOf(shell(scripts[i % scripts.length]!)));
    expect(resultOf(answer)).toMatchObject({ ok: true, value: 1, warnings: [] });
    expect(answer.environment).toBe(environment);
  }
  expect([await temporaryFiles(environment!), await processes(environment!)]).toEqual(before);
  expect(before[1]).toEqual(['MainThread S', 'launcher S', 'launcher S', 'tini S']);
});

test('what Node compiled while the image was built is taken, and no child can change it', async () => {
  const lambda = make();
  await lambda.invoke(taskOf(shell('echo 1')));
  const [environment] = lambda.environments();
  const load = 'node -e "import(\\"/var/task/index.mjs\\")"';
  const script = `NODE_DEBUG_NATIVE=COMPILE_CACHE STORE_URL=s3://none ${load} 2>&1; find /opt/compiled -writable | wc -l`;
  const text = await inside(environment!.box, script);
  expect(text).toMatch(/cache for ESM file:\/\/\/var\/task\/index\.mjs was accepted/);
  expect(text.trim().split('\n').at(-1)).toBe('0');
});

test('the same event twice starts one child', async () => {
  const lambda = make();
  const event = taskOf(shell('echo ran >> /mnt/twice; echo 1'), { task_id: 'twice' });
  const first = resultOf(await lambda.invoke(event));
  const second = resultOf(await lambda.invoke(event));
  expect([first.replayed, second]).toEqual([false, { ...first, replayed: true }]);
  expect(readFileSync(join(shared(), 'twice'), 'utf8')).toBe('ran\n');
});

test('20 callers at once, each in an environment of its own, start one child', async () => {
  const lambda = make();
  const event = taskOf(shell('echo ran >> /mnt/race; sleep 1; echo 1'), { task_id: 'race' });
  const answers = await Promise.all(Array.from({ length: 20 }, () => lambda.invoke(event)));
  expect(new Set(answers.map(({ environment }) => environment)).size).toBe(20);
  expect(readFileSync(join(shared(), 'race'), 'utf8')).toBe('ran\n');
  const result = parsed(await stored('race'));
  for (const answer of answers) {
    if (answer.error_type === 'AttemptInProgress') continue;
    expect({ ...resultOf(answer), replayed: false }).toEqual(result);
  }
  const ran = answers.filter(
    ({ error_type, payload }) => error_type === null && (payload as { replayed: boolean }).replayed === false,
  );
  expect(ran.length).toBe(1);
  await lambda.stop();
}, 180_000);

test('a container killed in the middle is taken over after its deadline, with a warning', async () => {
  const lambda = make();
  const script = 'if [ -e /mnt/lost ]; then echo 2; else touch /mnt/lost; sleep 60; fi';
  const event = taskOf(shell(script), { task_id: 'lost', timeout_secs: 2 });
  const claimed = performance.now();
  const dying = lambda.invoke(event);
  while (!existsSync(join(shared(), 'lost'))) await pause(20);
  await podman('kill', '--signal', 'KILL', lambda.environments()[0]!.box.id);
  expect((await dying).error_type).toBe('Runtime.ExitError');
  expect(await stored('lost')).toBeNull();

  expect((await lambda.invoke(event)).error_type).toBe('AttemptInProgress');
  const { deadline } = JSON.parse((await stored('lost', 'claim.json')) ?? '') as { deadline: string };
  await pause(Date.parse(deadline) - Date.now() + 50);
  const result = resultOf(await lambda.invoke(event));
  expect(performance.now() - claimed).toBeGreaterThan(12_000);
  expect(result).toMatchObject({
    status: 'passed',
    value: 2,
    replayed: false,
    warnings: ['an earlier holder of this attempt was lost; its child may have run once already'],
  });
  expect(parsed(await stored('lost'))).toEqual(result);
});

const [signalsParent] = readCases('users.jsonl').filter(({ id }) => id === 'G14-runtime-exit');
test.each([
  ['its parent', signalsParent?.template],
  [
    'every process',
    shell('trap "" TERM INT HUP; kill -TERM -1; kill -INT -1; kill -HUP -1; sleep 0.3; echo 1'),
  ],
  ['its own group', shell('trap "" TERM; kill -TERM 0; sleep 0.3; echo 1')],
])('a child that sends signals to %s is answered all the same', async (_, template) => {
  const lambda = make();
  const answer = await lambda.invoke(taskOf(template as never));
  expect(resultOf(answer)).toMatchObject({ ok: true });
  const after = await lambda.invoke(taskOf(shell('echo 1')));
  expect(resultOf(after)).toMatchObject({ ok: true, value: 1 });
  expect(after.environment).toBe(answer.environment);
});

test('a child that kills every process costs its own call only', async () => {
  const lambda = make();
  const event = taskOf(
    shell('if [ -e /mnt/killer ]; then echo 1; else touch /mnt/killer; kill -KILL -1; fi'),
    {
      timeout_secs: 1,
    },
  );
  expect((await lambda.invoke(event)).error_type).toBe('Runtime.ExitError');
  expect(resultOf(await lambda.invoke(taskOf(shell('echo 1'))))).toMatchObject({ ok: true, value: 1 });
  expect((await lambda.invoke(event)).error_type).toBe('AttemptInProgress');
});
