import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'jsonc-parser';
import { beforeAll, expect, inject, test } from 'vitest';
import { shell, taskOf } from '../support/attempts.ts';
import { readCases } from '../support/cases.ts';
import { podman } from '../support/containers.ts';
import { oneStep } from '../support/documents.ts';
import { temporaryFolder } from '../support/ports.ts';
import type { LambdaFunction } from '../support/runtime-api.ts';
import { parsed, resultOf, spawnImage } from '../support/spawn-image.ts';

const { make, stored } = spawnImage();
const folder = temporaryFolder();
const MIB = 1024 * 1024;
let lambda: LambdaFunction;

beforeAll(() => {
  lambda = make();
});

test('the worker of sample 11 passes, and its answer is what the store holds', async () => {
  const file = join(import.meta.dirname, '..', '..', 'examples', '11-subprocess-embed.json');
  const answer = await lambda.invoke({
    task_id: 'sample-11',
    attempt: 1,
    agent: 'summarizer',
    blueprint: parse(readFileSync(file, 'utf8')),
    in: 'summarize the change in one line',
  });
  const result = resultOf(answer);
  expect(result).toMatchObject({
    task_id: 'sample-11',
    attempt: 1,
    status: 'passed',
    ok: true,
    replayed: false,
    value: {
      prompt_seen: 'summarize the change in one line',
      system_seen: 'You are a headless one-line summarizer.',
    },
  });
  expect(parsed(await stored('sample-11'))).toEqual(result);
});

test('a child that fails is a stored result', async () => {
  const result = resultOf(
    await lambda.invoke(taskOf(shell('echo so far; echo why >&2; exit 3'), { task_id: 'failing' })),
  );
  expect(result).toMatchObject({
    status: 'blocked',
    ok: false,
    reason: 'exit_nonzero',
    value: { raw: 'so far', stderr: 'why\n' },
    exit: { code: 3, signal: null },
  });
  expect(parsed(await stored('failing'))).toEqual(result);
});

test('what cannot start is thrown under its code', async () => {
  const { error_type, payload } = await lambda.invoke(taskOf({ argv: ['no-such-program'] }));
  expect([error_type, payload]).toEqual([
    'SpawnFailed',
    expect.objectContaining({ errorType: 'SpawnFailed' }),
  ]);
});

test('a child that outlasts the function is ended and stored before the deadline', async () => {
  const deadline_ms = 6000;
  const answer = await lambda.invoke(taskOf(shell('printf "so far"; sleep 300'), { task_id: 'late' }), {
    deadline_ms,
  });
  const result = resultOf(answer);
  expect(answer.ms).toBeLessThan(deadline_ms);
  expect(result).toMatchObject({
    status: 'blocked',
    reason: 'timed_out',
    value: { raw: 'so far', stderr: '' },
  });
  expect(parsed(await stored('late'))).toEqual(result);
});

test.each([
  ['one that takes it all', 'exec node -e "const kept = []; for (;;) kept.push(Buffer.alloc(1e7, 1))"'],
  [
    'many that each take little',
    'for i in $(seq 40); do (head -c 25m /dev/zero | tail -c 25m | sleep 2) & done; wait',
  ],
])('a child that runs out of memory is a result, and the function lives on: %s', async (_, script) => {
  const answer = await lambda.invoke(taskOf(shell(script), { timeout_secs: 20 }));
  resultOf(answer);
  const after = await lambda.invoke(taskOf(shell('echo 1')));
  expect(resultOf(after)).toMatchObject({ status: 'passed', value: 1 });
  expect(after.environment).toBe(answer.environment);
});

test('the locale is UTF-8', async () => {
  const [case10] = readCases('users.jsonl').filter(({ id }) => id === 'B10-utf8-locale');
  const result = resultOf(await lambda.invoke(taskOf(case10!.template as never)));
  expect(result).toMatchObject({ ok: true, value: { raw: 'UTF-8', stderr: '' } });
});

test('a system prompt is a template', async () => {
  const template = { argv: ['cat'], stdin: '{system}' };
  const profile = {
    system_prompt: 'Answer {{ directive }} in {% for l in ["one", "two"] %}{{ l }} {% endfor %}lines.',
  };
  const result = resultOf(
    await lambda.invoke(taskOf(template, { blueprint: oneStep(template, {}, { profile }), in: 'größer' })),
  );
  expect(result).toMatchObject({ ok: true, value: { raw: 'Answer größer in one two lines.', stderr: '' } });
});

test('a child has Node, and the environment of the allow-list only', async () => {
  const names =
    'console.log(JSON.stringify([process.version.split(".")[0], Object.keys(process.env).sort()]))';
  const result = resultOf(await lambda.invoke(taskOf({ argv: ['node', '-e', names] })));
  expect(result.value).toEqual([
    'v24',
    [
      ...['HOME', 'LANG', 'LC_ALL', 'MSE_ATTEMPT', 'MSE_CTX_AGENT', 'MSE_PAYLOAD_FILE', 'MSE_TASK_ID'],
      ...['MSE_TOKEN_AGENT_ID', 'MSE_TOKEN_NONCE', 'PATH', 'TMPDIR'],
    ],
  ]);
});

test('size, cold start and warm latency are told', async () => {
  const image = inject('image');
  const size = Number(await podman('image', 'inspect', '--format', '{{.Size}}', image));
  const archive = join(folder, 'image.tar');
  await podman('save', '--quiet', '--format', 'oci-archive', '--output', archive, image);
  const fresh = make();
  const cold = await fresh.invoke(taskOf(shell('echo 1')));
  const warm: number[] = [];
  for (let i = 0; i < 20; i++) warm.push((await fresh.invoke(taskOf(shell('echo 1')))).ms);
  warm.sort((a, b) => a - b);
  const told = [
    `${Math.round(size / MIB)} MiB, compressed ${Math.round(statSync(archive).size / MIB)} MiB`,
    `first next after ${cold.environment.initMs()?.toFixed()} ms, first answer after ${cold.ms.toFixed()} ms`,
    `warm ${warm[10]?.toFixed()} ms (fastest ${warm[0]?.toFixed()} ms)`,
  ];
  process.stdout.write(`image ${told.join('; ')}\n`);
  expect(size).toBeLessThan(230 * MIB);
});
