/** How processes are started: exactly as asked, and what happens when somebody kills who starts them. */
import { spawn as startProcess } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { runAttempt } from '../../lib/attempt.ts';
import type { JsonObject } from '../../lib/json.ts';
import type { RunPorts } from '../../lib/run.ts';
import { createSpawn } from '../../lib/worker/spawn.ts';
import { attempt, shell, taskOf } from '../support/attempts.ts';
import { ENGINES, LAUNCHER } from '../support/engines.ts';
import { realPorts, temporaryFolder } from '../support/ports.ts';
import { isRunning, runningAs } from '../support/processes.ts';

const folder = temporaryFolder();
const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** All that a child printed, as it is. */
async function printed(ports: RunPorts, template: JsonObject): Promise<string> {
  const result = await attempt(ports, template);
  expect(result, JSON.stringify(result)).toMatchObject({ ok: true });
  const { key, tail } = result.stdout;
  return key === null ? tail : String((await ports.store.read(key))?.body);
}

describe.each(ENGINES)('a process that is started by %s', (_by, spawn) => {
  const ports = realPorts(folder, { spawn });

  test.each([0, 1, 2, 126, 127, 128, 137, 143, 255])('exit code %d is told as it is', async (code) => {
    const { exit } = await attempt(await ports, shell(`exit ${code}`));
    expect(exit).toEqual({ code, signal: null });
  });

  test.each(['HUP', 'INT', 'QUIT', 'ABRT', 'KILL', 'USR1', 'SEGV', 'PIPE', 'ALRM', 'TERM', 'SYS'])(
    'SIG%s is told as it is',
    async (name) => {
      const { exit } = await attempt(await ports, shell(`kill -${name} $$; sleep 5`));
      expect(exit).toEqual({ code: null, signal: `SIG${name}` });
    },
  );

  test('gets its arguments to the byte', async () => {
    const args = ['', 'é\n\t"\'\\ $x `y`', '', '-', '\u{1f600}\u0002', 'x'.repeat(131_071), ''];
    const argv = ['sh', '-c', 'cat /proc/$$/cmdline | tr "\\0" "\\1"', ...args];
    const seen = await printed(await ports, { argv });
    expect(seen.split('\u0001').map((text) => text.length)).toEqual([...argv.map((text) => text.length), 0]);
    expect(seen === argv.map((text) => `${text}\u0001`).join('')).toBe(true);
  });

  test('gets a name that is not its path, and an environment of 1.9 MB to the byte', async () => {
    const env = Object.fromEntries(
      Array.from({ length: 19 }, (_, i) => [
        `BIG_${i}`,
        `${i}é\n`.repeat(100_000 / 5).slice(0, 99_000 / 1.5),
      ]),
    );
    const seen = await printed(await ports, {
      ...shell('cat /proc/$$/environ | tr "\\0" "\\1"; printf "\\1%s" "$(tr "\\0" " " < /proc/$$/cmdline)"'),
      env: { ...env, EMPTY: '', SPACED: ' a  b ' },
    });
    const lines = seen.split('\u0001');
    expect(lines.at(-1)).toMatch(/^sh -c /);
    for (const [name, value] of Object.entries({ ...env, EMPTY: '', SPACED: ' a  b ' }))
      expect(lines.includes(`${name}=${value}`), name).toBe(true);
  });

  test('works in a folder of any name', async () => {
    const cwd = join(mkdtempSync(join(folder, 'cwd-')), 'é\n "x" $y');
    mkdirSync(cwd);
    const relative = join(cwd, 'prog');
    writeFileSync(relative, '#!/bin/sh\npwd\n');
    chmodSync(relative, 0o755);
    expect(await printed(await ports, { argv: ['./prog'], cwd })).toBe(`${cwd}\n`);
  });

  test('is a script without an interpreter line, run by sh', async () => {
    const dir = mkdtempSync(join(folder, 'plain-'));
    writeFileSync(join(dir, 'prog'), 'echo "$0 $1"\n');
    chmodSync(join(dir, 'prog'), 0o755);
    expect(await printed(await ports, { argv: [join(dir, 'prog'), 'a b'] })).toBe(
      `${join(dir, 'prog')} a b\n`,
    );
  });

  test('is found behind a file of its name that cannot be executed', async () => {
    const dir = mkdtempSync(join(folder, 'path-'));
    writeFileSync(join(dir, 'true'), '');
    const PATH = `${dir}/none:${dir}/true:${dir}:${process.env.PATH}`;
    expect(await attempt(await ports, { argv: ['true'], env: { PATH } })).toMatchObject({
      exit: { code: 0 },
    });
  });

  test('has no signal blocked or ignored', async () => {
    const status = await printed(await ports, { argv: ['grep', '^Sig[BI]', '/proc/self/status'] });
    expect(status).toBe('SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n');
  });

  test('is what is killed first when memory runs out', async () => {
    expect(await printed(await ports, shell('sleep 0.1; cat /proc/self/oom_score_adj'))).toBe('500\n');
  });

  test.runIf(process.getuid?.() === 0)(
    'runs as the user that is asked for, with that group only',
    async () => {
      const child_user = { uid: 65_534, gid: 65_534 };
      const place = await realPorts(folder, { spawn, child_user });
      for (const above of [folder, join(place.scratch.dir, '..')]) chmodSync(above, 0o711);
      expect(await printed(place, shell('id -u; id -g; id -G; touch "$HOME/x" && echo done'))).toBe(
        '65534\n65534\n65534\ndone\n',
      );
      expect((await attempt(place, shell('kill -9 $PPID; echo 1'))).value).toBe(1);
    },
  );
});

describe.each(LAUNCHER === null ? [] : [LAUNCHER])('the launcher', (path) => {
  const ports = (): Promise<RunPorts> => realPorts(folder, { spawn: createSpawn(path) });

  /** The starter of these ports, and its guardian. */
  async function pids(place: RunPorts): Promise<{ starter: number; guardian: number }> {
    const { value } = await attempt(
      place,
      shell('read -r _ _ _ parent _ < /proc/$PPID/stat; echo "[$PPID,$parent]"'),
    );
    const [starter, guardian] = value as number[];
    return { starter: starter!, guardian: guardian! };
  }

  test('finds an orphan without group, mark or files', async () => {
    const place = await ports();
    const script = '(cd /; exec setsid env -i sleep 319 </dev/null >/dev/null 2>&1) & sleep 0.005; echo 1';
    for (let round = 0; round < 5; round++) {
      expect(await attempt(place, shell(script))).toMatchObject({ status: 'passed', value: 1 });
      expect(runningAs('sleep', '319')).toEqual([]);
    }
  });

  test('that is killed by its child costs nothing: the exit is told', async () => {
    const place = await ports();
    expect(await attempt(place, shell('kill -9 $PPID; sleep 0.2; echo 1'))).toMatchObject({
      value: 1,
      exit: { code: 0, signal: null },
      warnings: [],
    });
    expect((await attempt(place, shell('kill -9 $PPID; kill -9 $$'))).exit).toEqual({
      code: null,
      signal: 'SIGKILL',
    });
  });

  test('whose guardian is killed costs nothing', async () => {
    const place = await ports();
    const { guardian, starter } = await pids(place);
    const running = attempt(place, shell('sleep 0.3; exit 7'));
    process.kill(guardian, 'SIGKILL');
    expect((await running).exit).toEqual({ code: 7, signal: null });
    expect((await pids(place)).guardian).not.toBe(guardian);
    await wait(200);
    expect(isRunning(starter)).toBe(false);
  });

  test('that is killed with its guardian: the attempt ends when its processes do, without an exit code', async () => {
    const place = await ports();
    const { guardian, starter } = await pids(place);
    const running = attempt(place, shell('echo 5; sleep 0.4; exit 7'));
    await wait(150);
    for (const pid of [guardian, starter]) process.kill(pid, 'SIGKILL');
    expect(await running).toMatchObject({
      ok: false,
      reason: 'signalled',
      message: expect.stringContaining('ended without an exit code'),
      exit: { code: null, signal: null },
    });
    expect((await attempt(place, shell('echo 2'))).value).toBe(2);
  });

  test('that is stopped is woken', async () => {
    const place = await ports();
    const { guardian, starter } = await pids(place);
    for (const pid of [guardian, starter]) process.kill(pid, 'SIGSTOP');
    expect((await attempt(place, shell('kill -STOP $PPID; echo 2'))).value).toBe(2);
  });

  test('that is killed again and again: every attempt runs once and passes', async () => {
    const place = await ports();
    const file = join(mkdtempSync(join(folder, 'kills-')), 'runs');
    let killing = true;
    let killed = 0;
    const starters = new Map<string, string>();
    const killer = (async () => {
      for (; killing; await wait(3)) {
        for (const guardian of childrenOf(process.pid)) {
          // its first child; others were the starter's, which it adopted
          const [child] = childrenOf(guardian);
          if (child !== undefined && !starters.has(guardian)) starters.set(guardian, child);
          if (child !== undefined && starters.get(guardian) === child) killed += kill(child);
        }
      }
    })();
    const lanes = Array.from({ length: 4 }, async (_, lane) => {
      for (let i = 0; i < 25; i++) {
        const result = await attempt(place, shell(`echo x >> ${file}; echo ${lane * 100 + i}`));
        expect(result).toMatchObject({ value: lane * 100 + i, exit: { code: 0 } });
      }
    });
    await Promise.all(lanes).finally(() => {
      killing = false;
    });
    await killer;
    expect(killed).toBeGreaterThan(5);
    expect(readFileSync(file, 'utf8').length).toBe(200);
  }, 60_000);

  function childrenOf(pid: number | string): string[] {
    try {
      const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1');
      return list.split(' ').filter((child) => child !== '');
    } catch {
      return [];
    }
  }

  function kill(pid: number | string): number {
    try {
      process.kill(Number(pid), 'SIGKILL');
      return 1;
    } catch {
      return 0;
    }
  }

  test('is idle with the descriptors that it began with after 500 attempts, and has no child left', async () => {
    const place = await ports();
    const { guardian, starter } = await pids(place);
    const open = (): number[] =>
      [process.pid, guardian, starter].map((pid) => readdirSync(`/proc/${pid}/fd`).length);
    await wait(100);
    const before = open();
    for (let i = 0; i < 50; i++)
      await Promise.all(
        Array.from({ length: 10 }, () => attempt(place, shell('setsid sleep 0.01 & echo 1'))),
      );
    expect(open()).toEqual(before);
    expect(readFileSync(`/proc/${starter}/task/${starter}/children`, 'utf8')).toBe('');
    expect(readFileSync(`/proc/${guardian}/task/${guardian}/children`, 'utf8')).toBe(`${starter} `);
  }, 60_000);

  test('ends all that it started when we are killed, also what hides', async () => {
    const root = mkdtempSync(join(folder, 'killed-'));
    const script = join(import.meta.dirname, '..', 'support', 'attempt-process.ts');
    const hidden =
      'env -i PATH="$PATH" setsid -f setsid sleep 323; setsid sleep 323 & echo $PPID > "$1"; sleep 323';
    const file = join(root, 'ppid');
    const args = [script, join(root, 'store'), root, 'T-1', `set -- ${file}; ${hidden}`];
    const killed = startProcess(process.execPath, args, {
      stdio: 'ignore',
      env: { ...process.env, LAUNCHER: path },
    });
    const ended = new Promise((resolve) => killed.once('exit', resolve));
    while (!existsSync(file) || readFileSync(file, 'utf8') === '') await wait(20);
    await wait(100);
    expect(runningAs('sleep', '323').length).toBe(3);
    killed.kill('SIGKILL');
    await ended;
    for (let i = 0; i < 100 && runningAs('sleep', '323').length > 0; i++) await wait(20);
    expect(runningAs('sleep', '323')).toEqual([]);
    await wait(50);
    expect(isRunning(readFileSync(file, 'utf8').trim())).toBe(false);
  });

  test('does not keep us when nothing runs', async () => {
    const root = mkdtempSync(join(folder, 'idle-'));
    const script = join(import.meta.dirname, '..', 'support', 'attempt-process.ts');
    const args = [script, join(root, 'store'), root, 'T-1', 'echo $PPID'];
    const child = startProcess(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const { value } = JSON.parse(await text(child.stdout));
    await wait(100);
    expect([child.exitCode, isRunning(value)]).toEqual([0, false]);
  });

  test.each([
    ['is missing', () => '/no/launcher'],
    ['is no program', () => '/etc/passwd'],
    ['is another version', () => scriptOf('exit 64')],
    ['falls silent', () => '/bin/true'],
    ['dies at once', () => scriptOf('kill -9 $$')],
  ])('that %s: Node starts the children', async (_what, made) => {
    const place = await realPorts(folder, { spawn: createSpawn(made()) });
    for (const value of [1, 2]) expect((await attempt(place, shell(`echo ${value}`))).value).toBe(value);
    expect((await attempt(place, shell('cut -d " " -f 4 /proc/$$/stat'))).value).toBe(process.pid);
  });

  function scriptOf(text: string): string {
    const file = join(mkdtempSync(join(folder, 'fake-')), 'launcher');
    writeFileSync(file, `#!/bin/sh\n${text}\n`);
    chmodSync(file, 0o755);
    return file;
  }

  test('is not in the way of a fork bomb being ended', async () => {
    const place = await ports();
    const bomb =
      'n=0; f() { while [ $n -lt 400 ]; do n=$((n+1)); (setsid sh -c "sleep 331" &) ; done; }; f; f & echo 1';
    const task = taskOf(shell(bomb, { limits: { grace_secs: 0.2 } }));
    expect((await runAttempt(task, place)).value).toBe(1);
    expect(runningAs('sleep', '331')).toEqual([]);
  }, 60_000);
});
