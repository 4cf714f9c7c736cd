import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';
import type { JsonObject } from '../../lib/json.ts';
import { cli, startCli } from '../support/cli.ts';
import { oneStep, shellAgents, step } from '../support/documents.ts';
import { temporaryFolder } from '../support/ports.ts';
import { isRunning } from '../support/processes.ts';

const folder = temporaryFolder();

function place(document: unknown, name = 'b.json'): string {
  const dir = mkdtempSync(join(folder, 'cli-'));
  writeFileSync(join(dir, name), typeof document === 'string' ? document : JSON.stringify(document));
  return dir;
}

describe('stepspawn validate', () => {
  test('prints every issue with line and column, exit 1', async () => {
    const dir = place(
      '{\n  // a comment\n  "id": "t",\n  "flow": {"kind": "seq", "children": []},\n  "bogus": 1,\n}\n',
    );
    const { code, stdout } = await cli(['validate', 'b.json', '--json'], dir);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      ok: false,
      issues: [{ code: 'unknown_field', path: '/bogus', line: 5, column: 12 }],
    });
    const people = await cli(['validate', 'b.json'], dir);
    expect([people.code, people.stdout]).toEqual([1, '']);
    expect(people.stderr).toContain('b.json:5:12: error unknown_field /bogus');
  });

  test('exit 0 for a valid document, also in YAML', async () => {
    const dir = place('id: t\nflow: {kind: seq, children: []}\n', 'b.yaml');
    const { code, stdout } = await cli(['validate', 'b.yaml', '--json'], dir);
    expect([code, JSON.parse(stdout)]).toEqual([0, { ok: true, issues: [] }]);
  });
});

describe('stepspawn render', () => {
  test('prints the command and writes nothing', async () => {
    const dir = place(
      oneStep({ argv: ['prog', '{prompt}', '{attempt}'], stdin: 'x', env: { A: '{task_id}' } }),
    );
    const { code, stdout } = await cli(
      ['render', 'b.json', '--agent', 'w', '--prompt', 'hi', '--task-id', 'T-9'],
      dir,
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      argv: ['prog', 'hi', '1'],
      stdin: 'x',
      cwd: null,
      env: { A: 'T-9', MSE_TASK_ID: 'T-9' },
    });
    expect(readdirSync(dir)).toEqual(['b.json']);
  });

  test('a placeholder without a source is refused with exit 2', async () => {
    const dir = place(oneStep({ argv: ['prog', '{model}', '{work_dir}'] }));
    const { code, stdout } = await cli(['render', 'b.json', '--agent', 'w'], dir);
    expect(code).toBe(2);
    const { error } = JSON.parse(stdout);
    expect(error.code).toBe('PlaceholderUnset');
    expect(error.issues.map(({ path }: { path: string }) => path)).toEqual([
      '/subprocesses/0/argv/1',
      '/subprocesses/0/argv/2',
    ]);
  });
});

describe('stepspawn spawn and result', () => {
  test('runs once, answers again from the store, and keeps digits', async () => {
    const dir = place(oneStep({ argv: ['sh', '-c', 'echo x >> n; cat'], stdin: '{prompt}' }));
    const args = [
      'spawn',
      'b.json',
      '--agent',
      'w',
      '--in',
      '{"n": 9007199254740993, "f": 1.0}',
      '--task-id',
      'T-1',
    ];
    const first = await cli(args, dir);
    expect([first.code, first.stdout.endsWith('\n')]).toEqual([0, true]);
    expect(first.stdout).toContain('"value":{"f":1.0,"n":9007199254740993}');
    expect(JSON.parse(first.stdout)).toMatchObject({ task_id: 'T-1', status: 'passed', replayed: false });
    const second = await cli(args, dir);
    expect(JSON.parse(second.stdout)).toMatchObject({ status: 'passed', replayed: true });
    expect(readFileSync(join(dir, 'n'), 'utf8')).toBe('x\n');
    const stored = await cli(['result', 'T-1'], dir);
    expect([stored.code, stored.stdout]).toEqual([0, first.stdout]);
    const other = await cli([...args.slice(0, 4), '--in', '2', '--task-id', 'T-1'], dir);
    expect([other.code, JSON.parse(other.stdout).error.code]).toEqual([2, 'AttemptConflict']);
  });

  test('a failing child exits 1, a missing program 2, an unknown task 2', async () => {
    const dir = place(shellAgents({ bad: 'echo no >&2; exit 4' }, { kind: 'seq', children: [] }));
    const bad = await cli(['spawn', 'b.json', '--agent', 'bad'], dir);
    expect(bad.code).toBe(1);
    expect(JSON.parse(bad.stdout)).toMatchObject({
      ok: false,
      reason: 'exit_nonzero',
      exit: { code: 4 },
      value: { raw: '', stderr: 'no\n' },
    });
    const unknown = await cli(['spawn', 'b.json', '--agent', 'nobody'], dir);
    expect([unknown.code, JSON.parse(unknown.stdout).error.code]).toEqual([2, 'InvalidTask']);
    const missing = place(oneStep({ argv: ['no-such-program-xyz'] }));
    const failed = await cli(['spawn', 'b.json', '--agent', 'w', '--task-id', 'T-2'], missing);
    expect(failed.code).toBe(2);
    expect(JSON.parse(failed.stdout).error).toMatchObject({
      code: 'SpawnFailed',
      issues: [{ code: 'ENOENT', path: '/subprocesses/0/argv/0' }],
    });
    const stored = await cli(['result', 'T-2'], missing);
    expect([stored.code, JSON.parse(stored.stdout).status]).toEqual([1, 'failed']);
    const none = await cli(['result', 'T-404'], missing);
    expect([none.code, JSON.parse(none.stdout).error.code]).toEqual([2, 'NotFound']);
  });

  test('a descriptor that our own parent left open does not reach the child', async () => {
    const dir = place(
      shellAgents({ a: 'readlink /proc/$$/fd/100; cat /proc/$$/fd/100' }, { kind: 'seq', children: [] }),
    );
    writeFileSync(join(dir, 'private'), 'private-content');
    const fd = openSync(join(dir, 'private'), 'r');
    const child = startCli(['spawn', 'b.json', '--agent', 'a'], dir, {}, fd);
    closeSync(fd);
    const stdout = await text(child.stdout);
    expect(JSON.parse(stdout)).toMatchObject({ value: { raw: '/dev/null' } });
    expect(stdout).not.toContain('private-content');
  });

  test('a directive from a file is JSON by its name, else text', async () => {
    const dir = place(oneStep({ argv: ['cat'], stdin: '{prompt}' }));
    writeFileSync(join(dir, 'i.json'), '{"b": 1, "a": 2}');
    writeFileSync(join(dir, 'i.txt'), '{"b": 1, "a": 2}');
    const value = async (file: string) =>
      (await cli(['render', 'b.json', '--agent', 'w', '--in-file', file], dir)).stdout;
    expect(JSON.parse(await value('i.json')).stdin).toBe('{"a":2,"b":1}');
    expect(JSON.parse(await value('i.txt')).stdin).toBe('{"b": 1, "a": 2}');
  });

  test('a store that cannot be used exits 3', async () => {
    const dir = place(oneStep({ argv: ['true'] }));
    const { code, stdout } = await cli(
      ['spawn', 'b.json', '--agent', 'w', '--store', 'file:///dev/null'],
      dir,
    );
    expect([code, JSON.parse(stdout).error.code]).toEqual([3, 'StoreUnavailable']);
  });
});

describe('stepspawn run', () => {
  test('prints the final context on stdout and plain progress on stderr', async () => {
    const dir = place(oneStep({ argv: ['cat'], stdin: '{prompt}' }));
    const { code, stdout, stderr } = await cli(
      ['run', 'b.json', '--ctx', '{"k": 1.50}', '--run-id', 'R-1'],
      dir,
    );
    expect([code, stdout]).toEqual([
      0,
      '{"run_id":"R-1","status":"done","ctx":{"k":1.50,"r":{"raw":"hello","stderr":""}}}\n',
    ]);
    expect(stderr).toMatch(/w started\nw passed in \d\.\d s\n/);
    const again = await cli(['run', 'b.json', '--ctx', '{"k": 1.50}', '--run-id', 'R-1'], dir);
    expect([again.code, again.stdout]).toEqual([0, stdout]);
  });

  test('a run that does not pass exits 1 and names the step', async () => {
    const dir = place(oneStep({ argv: ['no-such-program-xyz'] }));
    const { code, stdout } = await cli(['run', 'b.json'], dir);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'failed',
      error: { failed_step: 'w', message: expect.stringContaining('no-such-program-xyz') },
    });
  });

  test('an invalid document is refused with exit 2 and nothing is written', async () => {
    const dir = place(oneStep({ argv: ['{promt}'] }));
    const { code, stdout } = await cli(['run', 'b.json'], dir);
    expect(code).toBe(2);
    expect(JSON.parse(stdout).error).toMatchObject({
      code: 'InvalidBlueprint',
      issues: [{ code: 'unknown_placeholder', line: 1 }],
    });
    expect(readdirSync(dir)).toEqual(['b.json']);
  });

  test.each(['SIGINT', 'SIGTERM'] as const)(
    '%s ends the children, exits 130, and the run can go on',
    async (signal) => {
      const dir = place(
        shellAgents(
          { a: 'echo 1', b: 'echo $$ > pid; test -e go || sleep 60; echo 2' },
          { kind: 'seq', children: [step('a', 'x', '$.a'), step('b', 'x', '$.b')] },
        ),
      );
      const child = startCli(['run', 'b.json', '--run-id', 'R-1'], dir);
      const ended = new Promise((resolve) => child.once('close', resolve));
      const stderr = text(child.stderr);
      while (!existsSync(join(dir, 'pid')) || readFileSync(join(dir, 'pid'), 'utf8') === '')
        await new Promise((resolve) => setTimeout(resolve, 20));
      child.kill(signal);
      expect(await ended).toBe(130);
      expect(await stderr).toContain(`${signal}: ending what runs`);
      expect(isRunning(readFileSync(join(dir, 'pid'), 'utf8').trim())).toBe(false);
      writeFileSync(join(dir, 'go'), '');
      const again = await cli(['run', 'b.json', '--run-id', 'R-1'], dir);
      expect([again.code, JSON.parse(again.stdout).ctx]).toEqual([0, { a: 1, b: 2 }]);
      expect(again.stderr).toContain('a passed from the store');
    },
  );

  test('after kill -9 the same command goes on at once, and no orphan is left', async () => {
    const dir = place(
      shellAgents(
        { a: 'echo x >> a; echo 1', b: 'echo $$ >> pid; test -e go || sleep 60; echo 2' },
        { kind: 'seq', children: [step('a', 'x', '$.a'), step('b', 'x', '$.b')] },
      ),
    );
    const child = startCli(['run', 'b.json', '--run-id', 'R-1'], dir);
    const ended = new Promise((resolve) => child.once('close', resolve));
    while (!existsSync(join(dir, 'pid'))) await new Promise((resolve) => setTimeout(resolve, 20));
    child.kill('SIGKILL');
    await ended;
    const orphan = readFileSync(join(dir, 'pid'), 'utf8').trim();
    writeFileSync(join(dir, 'go'), '');
    const again = await cli(['run', 'b.json', '--run-id', 'R-1'], dir);
    expect([again.code, JSON.parse(again.stdout).ctx]).toEqual([0, { a: 1, b: 2 }]);
    expect(readFileSync(join(dir, 'a'), 'utf8')).toBe('x\n');
    expect(isRunning(orphan)).toBe(false);
  });
});

describe('a reader that goes away', () => {
  test.each(['stdout', 'stderr'] as const)(
    'from %s: no stack trace, the run comes to its end, nothing is left',
    async (stream) => {
      const dir = place(
        shellAgents(
          { a: `sleep 0.3; echo x >> ended; echo 1` },
          { kind: 'seq', children: [step('a', 'x', '$.a'), step('a', 'y', '$.b')] },
        ),
      );
      const child = startCli(['run', 'b.json', '--run-id', 'R-1'], dir);
      child[stream].destroy();
      const other = text(child[stream === 'stdout' ? 'stderr' : 'stdout']);
      expect(await new Promise((resolve) => child.once('close', resolve))).toBe(0);
      expect(await other).not.toMatch(/^\s+at /m);
      expect(readFileSync(join(dir, 'ended'), 'utf8')).toBe('x\nx\n');
    },
  );
});

describe('wrong usage', () => {
  test.each([
    [['run'], "missing required argument 'file'"],
    [['run', 'missing.json'], 'cannot read missing.json: ENOENT'],
    [['spawn', 'b.json'], "required option '--agent <name>' not specified"],
    [
      ['spawn', 'b.json', '--agent', 'w', '--attempt', '0'],
      "expected a whole number from 1 to 9999, got '0'",
    ],
    [['spawn', 'b.json', '--agent', 'w', '--prompt', 'a', '--in', '1'], 'cannot be used with option'],
    [['spawn', 'b.json', '--agent', 'w', '--in', '{'], '--in: expected JSON'],
    [['spawn', 'b.json', '--agent', 'w', '--task-id', '../x'], "got '../x'"],
    [
      ['run', 'b.json', '--ttl-secs', 'soon'],
      "expected a number of seconds above 0, at most 2147483, got 'soon'",
    ],
    [['run', 'b.json', '--retry'], '--retry needs the --run-id'],
    [
      ['run', 'b.json', '--store', 'http://x'],
      "expected file:///folder or s3://bucket/prefix, got 'http://x'",
    ],
    [['run', 'b.json', '--nonsense'], "unknown option '--nonsense'"],
    [['fly'], "unknown command 'fly'"],
  ])('%j exits 64 and says why', async (args, message) => {
    const { code, stdout, stderr } = await cli(args, place(oneStep({ argv: ['true'] })));
    expect([code, stdout]).toEqual([64, '']);
    expect(stderr).toContain(message);
  });

  test('--help is there for every command, and exits 0', async () => {
    for (const args of [[], ['validate'], ['render'], ['spawn'], ['run'], ['result'], ['schema']]) {
      const { code, stdout } = await cli([...args, '--help'], folder);
      expect([args, code]).toEqual([args, 0]);
      expect(stdout).toContain('Usage: stepspawn');
    }
  });

  test('schema prints a JSON Schema that takes what we take and tells an editor what is wrong', async () => {
    const { code, stdout } = await cli(['schema'], folder);
    expect(code).toBe(0);
    const schema = z.fromJSONSchema(JSON.parse(stdout));
    const retry: JsonObject = {
      when: { all: [{ exit_codes: [75] }, { not: { ptr: '/a', equals: null } }] },
      max_attempts: 2,
    };
    const select = { answer: { where: { '/type': 'text', '/n': 1 }, take: 'all', join: '' } };
    const output = { format: 'jsonl', select, ok_from: { ptr: '/answer', empty: false } };
    const template: JsonObject = {
      argv: ['x'],
      env: { A: 'b' },
      output,
      retry,
      files: { '~/a': 'x' },
      artifacts: [{ glob: '*' }],
    };
    const takes = (changed: JsonObject, rest: JsonObject = {}): boolean =>
      schema.safeParse(oneStep({ ...template, ...changed }, rest)).success;
    expect(takes({})).toBe(true);
    expect(takes({ output: { ...output, select: { where: {} }, ok_from: 'exit_code' } })).toBe(true);
    const mistakes: JsonObject[] = [
      { argv: 'x' },
      { env: { A: 1 } },
      { output: { ...output, select: { answer: { take: 'last' } } } },
      { output: { ...output, ok_from: { ptr: '/answer', emtpy: false } } },
      { output: { ...output, ok_from: { ptr: '/answer' } } },
      { output: { ...output, ok_from: {} } },
      { output: { ...output, ok_from: { exit_codes: [0], all: [{ exit_codes: [1] }] } } },
      { output: { ...output, select: {} } },
      { output: { ...output, select: { where: { type: 'x' } } } },
      { retry: { when: retry.when! } },
      { retry: { ...retry, max_attempts: 1 } },
      { limits: { timeout_secs: 0 } },
      { artifacts: [{ required: true }] },
    ];
    for (const wrong of mistakes) expect(takes(wrong), JSON.stringify(wrong)).toBe(false);
    expect(takes({}, { flow: { kind: 'step', ref: 'w', in: { op: 'lit', value: 1 } } })).toBe(false);
  });
});
