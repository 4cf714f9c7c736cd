/** Children that misbehave, through real attempts: what happens to them, and what is left. */
import { chmodSync, cpSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { runAttempt } from '../../lib/attempt.ts';
import type { RunPorts } from '../../lib/run.ts';
import { attempt, refusal, shell, taskOf } from '../support/attempts.ts';
import { ENGINES } from '../support/engines.ts';
import { realPorts, temporaryFolder } from '../support/ports.ts';
import { runningAs, runningWith } from '../support/processes.ts';

const folder = temporaryFolder();

describe.each(ENGINES)('started by %s', (_by, spawn) => {
  let ports: RunPorts;
  beforeAll(async () => {
    ports = await realPorts(folder, { spawn });
  });

  describe('the world of a child', () => {
    test('is its own session and group', async () => {
      const script =
        'read -r pid _ _ _ pgid session _ < /proc/self/stat; test "$$" = "$pgid" && test "$$" = "$session" && echo 1';
      expect(await attempt(ports, shell(script))).toMatchObject({ value: 1 });
    });

    test('has no open descriptor but its own three, whatever we inherited', async () => {
      const result = await attempt(ports, shell('for fd in /proc/$$/fd/*; do readlink "$fd"; done'));
      const targets = String((result.value as { raw: string }).raw).split('\n');
      expect(targets.slice(0, 3).map((target) => target.split('/').at(-1))).toEqual([
        'null',
        'stdout',
        'stderr.fifo',
      ]);
      expect(new Set(targets.slice(3))).toEqual(new Set(targets.length > 3 ? ['/dev/null'] : []));
    });

    test('has an environment of allowed names only', async () => {
      process.env.SOME_HOST_SECRET = 'x';
      const result = await attempt(
        ports,
        shell('env | cut -d= -f1 | sort | tr "\\n" " "', { env: { MINE: '1' } }),
      );
      delete process.env.SOME_HOST_SECRET;
      const names = String((result.value as { raw: string }).raw).split(' ');
      const allowed = [
        'HOME',
        'LANG',
        'LC_ALL',
        'MINE',
        'PATH',
        'TMPDIR',
        'TZ',
        'PWD',
        'OLDPWD',
        'SHLVL',
        '_',
      ];
      expect(names.filter((name) => !name.startsWith('MSE_') && !allowed.includes(name))).toEqual([]);
      expect(names.filter((name) => name.startsWith('MSE_'))).toEqual([
        'MSE_ATTEMPT',
        'MSE_CTX_AGENT',
        'MSE_PAYLOAD_FILE',
        'MSE_TASK_ID',
        'MSE_TOKEN_AGENT_ID',
        'MSE_TOKEN_NONCE',
      ]);
    });

    test('HOME and TMPDIR are writable and gone afterwards', async () => {
      const result = await attempt(
        ports,
        shell(
          'echo x > "$HOME/f" && echo y > "$TMPDIR/g" && mkdir "$HOME/d" && chmod 000 "$HOME/d" && ln -s /etc "$HOME/link" && echo "\\"$HOME\\""',
        ),
      );
      expect(result.status).toBe('passed');
      expect(() => readFileSync(`${result.value}/f`)).toThrow(/ENOENT/);
      expect(readFileSync('/etc/passwd', 'utf8')).not.toBe('');
    });

    test('HOME begins as the seed folder', async () => {
      const seed = mkdtempSync(join(folder, 'seed-'));
      writeFileSync(join(seed, '.settings'), 'seeded');
      const { openScratch } = await import('../../lib/worker/scratch.ts');
      const scratch = await openScratch({ root: mkdtempSync(join(folder, 'scratch-')), homeSeed: seed });
      const result = await attempt(
        { ...ports, scratch },
        shell('cat "$HOME/.settings"; echo changed > "$HOME/.settings"'),
      );
      expect(result.value).toEqual({ raw: 'seeded', stderr: '' });
      expect(readFileSync(join(seed, '.settings'), 'utf8')).toBe('seeded');
    });
  });

  describe('a start that fails', () => {
    const elf = (): string => {
      const path = join(mkdtempSync(join(folder, 'elf-')), 'prog');
      cpSync('/bin/true', path);
      const bytes = readFileSync(path);
      bytes.write('/nowhere', bytes.indexOf('/lib'));
      writeFileSync(path, bytes);
      return path;
    };
    const script = (text: string, mode: number): string => {
      const path = join(mkdtempSync(join(folder, 'script-')), 'prog');
      writeFileSync(path, text);
      chmodSync(path, mode);
      return path;
    };
    test.each([
      ['no such program', () => ({ argv: ['nope-xyz'] }), '/argv/0', 'ENOENT', 'PATH searched: '],
      ['no such path', () => ({ argv: ['/no/such'] }), '/argv/0', 'ENOENT', "'/no/such' not found"],
      ['an empty name', () => ({ argv: ['{system}'] }), '/argv/0', 'ENOENT', 'empty'],
      ['a directory', () => ({ argv: ['/etc'] }), '/argv/0', 'EACCES', 'is a directory'],
      ['not executable', () => ({ argv: [script('#!/bin/sh\n', 0o644)] }), '/argv/0', 'EACCES', 'mode 0644'],
      [
        'a missing interpreter',
        () => ({ argv: [script('#!/no/interpreter -x\n', 0o755)] }),
        '/argv/0',
        'interpreter_missing',
        '/no/interpreter',
      ],
      ['a missing loader', () => ({ argv: [elf()] }), '/argv/0', 'interpreter_missing', '/nowhere'],
      [
        'no such cwd',
        () => ({ argv: ['true'], cwd: '/no/dir' }),
        '/cwd',
        'cwd_missing',
        "'/no/dir' does not exist",
      ],
      [
        'a cwd that is a file',
        () => ({ argv: ['true'], cwd: '/etc/passwd' }),
        '/cwd',
        'cwd_not_a_directory',
        '/etc/passwd',
      ],
      [
        'an environment value that is too long',
        () => ({ argv: ['true'], env: { BIG: 'x'.repeat(140_000) } }),
        '/env/BIG',
        'too_long',
        '131072',
      ],
      [
        'all arguments together too long',
        () => ({ argv: ['true', ...Array(30).fill('x'.repeat(100_000))] }),
        '/argv',
        'too_long',
        '2097152',
      ],
    ])('%s is told apart', async (_what, template, path, code, words) => {
      const error = await refusal(attempt(ports, template()));
      expect(error.code).toBe('SpawnFailed');
      expect(error.issues).toEqual([
        { code, path: `/subprocesses/0${path}`, message: expect.stringContaining(words), severity: 'error' },
      ]);
    });

    test('lists everything that is wrong at once, and is answered again from the store', async () => {
      const task = taskOf({ argv: ['nope-xyz', '{prompt}'], cwd: '/no/dir' }, { in: 'a\0b' });
      const first = await refusal(runAttempt(task, ports));
      expect(first.issues.map(({ code }) => code)).toEqual(['nul_byte', 'cwd_missing', 'ENOENT']);
      const second = await refusal(runAttempt(task, ports));
      expect([second.code, second.message, second.issues]).toEqual([first.code, first.message, first.issues]);
    });
  });

  describe('limits', () => {
    test('time: TERM, grace, KILL, and what was printed is kept', async () => {
      const task = taskOf(
        shell('trap "" TERM; echo begun; while :; do sleep 1; done', {
          limits: { timeout_secs: 0.5, grace_secs: 0.4 },
        }),
      );
      const result = await runAttempt(task, ports);
      expect(result).toMatchObject({
        ok: false,
        reason: 'timed_out',
        exit: { code: null, signal: 'SIGKILL' },
        value: { raw: 'begun' },
      });
      expect(result.duration_ms).toBeLessThan(4000);
      expect(runningWith(`MSE_TASK_ID=${task.task_id}`)).toEqual([]);
    });

    test('the request and the template: the smaller wins', async () => {
      const slow = shell('sleep 20', { limits: { timeout_secs: 10 } });
      expect((await attempt(ports, slow, { timeout_secs: 0.3 })).duration_ms).toBeLessThan(3000);
      const quick = shell('sleep 20', { limits: { timeout_secs: 0.3 } });
      expect((await attempt(ports, quick, { timeout_secs: 10 })).duration_ms).toBeLessThan(3000);
    });

    test('silence: a child that prints goes on, a silent one does not', async () => {
      const limits = { silence_secs: 0.6 };
      const chatty = await attempt(
        ports,
        shell('for i in 1 2 3 4; do sleep 0.3; echo $i >&2; done', { limits }),
      );
      expect(chatty.status).toBe('passed');
      const silent = await attempt(ports, shell('echo x; sleep 20', { limits }));
      expect(silent).toMatchObject({ ok: false, reason: 'silent', value: { raw: 'x' } });
    });

    test('stdout: stopped while it writes, with head and tail and the whole size', async () => {
      const result = await attempt(ports, shell('echo first; yes', { limits: { stdout_bytes: 100_000 } }));
      expect(result).toMatchObject({ ok: false, reason: 'output_limit' });
      expect(result.stdout.size_bytes).toBeGreaterThan(100_000);
      expect(result.stdout.tail.endsWith('y\n') || result.stdout.tail.endsWith('y')).toBe(true);
      const whole = await ports.store.read(result.stdout.key ?? '');
      expect(whole?.body.length).toBeLessThan(100_000 + 8192 + 100);
      expect(String(whole?.body)).toMatch(/^first\ny\n[\s\S]*\n\[\d+ bytes cut here\]\n[y\n]{8192}$/);
    });

    test('stderr: head and tail are kept, and how much is missing is told', async () => {
      const script = 'echo first >&2; head -c 300000 /dev/zero | tr "\\0" e >&2; echo last >&2; sleep 20';
      const result = await attempt(
        ports,
        shell(script, { limits: { stderr_bytes: 20_000, grace_secs: 0.2 } }),
      );
      expect(result).toMatchObject({ ok: false, reason: 'output_limit' });
      const whole = String((await ports.store.read(result.stderr.key ?? ''))?.body);
      expect(whole.startsWith('first\n')).toBe(true);
      expect(whole).toMatch(/\n\[\d+ bytes cut here\]\n/);
    });

    test('stdout of one that goes on when it was stopped: no more grace', async () => {
      const result = await attempt(
        ports,
        shell('trap "" TERM; yes; while :; do sleep 1; done', {
          limits: { stdout_bytes: 100_000, grace_secs: 20 },
        }),
      );
      expect(result).toMatchObject({ ok: false, reason: 'output_limit' });
      expect(result.duration_ms).toBeLessThan(10_000);
    });

    test('10 MB of stderr never block the child', async () => {
      const result = await attempt(ports, shell('head -c 10000000 /dev/zero | tr "\\0" e >&2; echo 1'));
      expect([result.value, result.stderr.size_bytes, result.stderr.tail.length]).toEqual([
        1, 10_000_000, 8192,
      ]);
    });
  });

  describe('nothing that an attempt started survives it', () => {
    test.each([
      ['a background process', 'sleep 317 &'],
      ['one that holds stdout', 'sleep 317 & exec 2>&-'],
      ['nohup', 'nohup sleep 317 >/dev/null 2>&1 &'],
      ['setsid', 'setsid sleep 317 >/dev/null 2>&1 &'],
      ['a double fork', '( (sleep 317 >/dev/null 2>&1 &) & )'],
      ['setsid twice', 'setsid sh -c "setsid sleep 317 & exit" >/dev/null 2>&1'],
      [
        'setsid with an empty environment, seen while its parent lives',
        'setsid env -i PATH="$PATH" sleep 317 >/dev/null 2>&1 & sleep 0.4',
      ],
      ['setsid with an empty environment at once', 'env -i PATH="$PATH" setsid -f sleep 317'],
      ['a stopped process', 'sleep 317 & kill -STOP $!'],
      ['one that ignores TERM', 'sh -c "trap \\"\\" TERM; while :; do sleep 1; done" & sleep 0.1'],
      [
        'thirty of them, each in its own session',
        'i=0; while [ $i -lt 30 ]; do setsid sleep 317 & i=$((i+1)); done',
      ],
    ])('%s', async (_what, script) => {
      const task = taskOf(shell(`${script}\necho 1`, { limits: { grace_secs: 0.3 } }));
      const result = await runAttempt(task, ports);
      expect(result).toMatchObject({ status: 'passed', value: 1, warnings: [] });
      expect(runningWith(`MSE_TASK_ID=${task.task_id}`)).toEqual([]);
      expect(runningAs('sleep', '317')).toEqual([]);
    });
  });

  describe('what was printed is kept when the child', () => {
    test.each([
      ['removes all files of the attempt', 'echo 1; rm -rf "$HOME/.."; sleep 0.2', 1],
      ['moves its folder', 'echo 1; mv "$HOME/.." "$(dirname "$HOME")-away"; sleep 0.2', 1],
      [
        'puts a link in its place',
        'cd "$HOME/.."; for f in *; do rm -rf "$f"; ln -s /etc/passwd "$f"; done; echo 1',
        1,
      ],
    ])('%s', async (_what, script, value) => {
      const own = mkdtempSync(join(folder, 'own-'));
      const { openScratch } = await import('../../lib/worker/scratch.ts');
      const scratch = await openScratch({ root: own });
      expect(await attempt({ ...ports, scratch }, shell(script))).toMatchObject({ status: 'passed', value });
      expect(await attempt({ ...ports, scratch }, shell('echo 2'))).toMatchObject({ value: 2 });
    });

    test('empties its stdout while we read it', async () => {
      const seen: string[] = [];
      const script = 'echo many words; sleep 0.2; : > /proc/self/fd/1; echo 1; sleep 0.2';
      const result = await runAttempt(taskOf(shell(script)), {
        ...ports,
        onOutput: (text) => seen.push(text),
      });
      expect(result).toMatchObject({ value: 1 });
      expect(result.warnings.join()).toMatch(/stdout/);
    });
  });

  describe('a child harms nobody else', () => {
    test.each([
      ['ends its own group', 'kill -TERM 0; sleep 5', { ok: false, reason: 'signalled' }],
      [
        'sends us SIGTERM, SIGINT and SIGHUP',
        'kill -TERM $PPID; kill -INT $PPID; kill -HUP $PPID; sleep 0.2; echo 1',
        { ok: true, value: 1 },
      ],
      ['closes its descriptors', 'exec <&- >&- 2>&-; sleep 0.2', { ok: true }],
      [
        'exits with a code above 128',
        'exit 145',
        { ok: false, reason: 'exit_nonzero', exit: { code: 145, signal: null } },
      ],
      [
        'is killed',
        'kill -9 $$',
        { ok: false, reason: 'signalled', exit: { code: null, signal: 'SIGKILL' } },
      ],
    ])('that %s', async (_what, script, expected) => {
      expect(await attempt(ports, shell(script))).toMatchObject(expected);
      expect(await attempt(ports, shell('echo 2'))).toMatchObject({ value: 2 });
    });
  });
});
