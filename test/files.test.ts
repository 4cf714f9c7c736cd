/** The files of a template: written before the child starts, over nothing of others, and gone when the attempt settles. */
import { spawn as startProcess } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { runAttempt } from '../lib/attempt.ts';
import { previewCommand } from '../lib/child.ts';
import type { StepspawnError } from '../lib/errors.ts';
import type { JsonObject } from '../lib/json.ts';
import type { RunPorts } from '../lib/run.ts';
import { folderStore } from '../lib/store/folder.ts';
import { openScratch } from '../lib/worker/scratch.ts';
import { attempt, refusal, shell, taskOf } from './support/attempts.ts';
import { oneStep } from './support/documents.ts';
import { temporaryFolder } from './support/ports.ts';
import { withFiles } from './support/with-files.ts';
import { workFolder } from './support/work-folder.ts';

const folder = temporaryFolder();

const cat = (files: JsonObject, ...names: string[]): JsonObject => shell(`cat ${names.join(' ')}`, { files });
const issues = ({ code, issues: found }: StepspawnError) => [
  code,
  ...found.map((one) => [one.code, one.path]),
];

describe('are written', () => {
  test('below HOME and the directory of the child, private, each placeholder filled once', async () => {
    const { dir, ports } = await workFolder(folder);
    const shows =
      'cat ~/.tool/s.json conf/x; for f in ~/.tool ~/.tool/s.json conf conf/x; do stat -c %a $f; done';
    const files = { '~/.tool/s.json': '{"p": {prompt}}\n', 'conf/x': '{task_id} {attempt} ${A} {x1}\n' };
    const result = await attempt(ports, shell(shows, { files }), { in: '{model}', task_id: 'T-files' });
    expect(result.value).toEqual({
      raw: '{"p": {model}}\nT-files 1 ${A} {x1}\n700\n600\n700\n600',
      stderr: '',
    });
    expect([result.warnings, readdirSync(dir)]).toEqual([[], []]);
  });

  test('with the bytes that the document has, in names of any letters', async () => {
    const { ports } = await workFolder(folder);
    const content = 'a\0é😀\r\n';
    const files = { 'ö 😀.x': content, __proto__x: '', '~/constructor': 'c' };
    const { value } = await attempt(
      ports,
      shell('cat "ö 😀.x" | od -An -tx1; wc -c < __proto__x; cat ~/constructor', { files }),
    );
    expect(value).toMatchObject({ raw: ' 61 00 c3 a9 f0 9f 98 80 0d 0a\n0\nc' });
  });

  test('below cwd where the template names one, and in the directory of the attempt where nothing does', async () => {
    const { dir, ports } = await workFolder(folder);
    mkdirSync(join(dir, 'below'));
    const context = { work_dir: dir };
    const there = await attempt(
      ports,
      { ...cat({ f: '1' }, 'f', '; pwd'), cwd: '{work_dir}/below' },
      { context },
    );
    expect(there.value).toMatchObject({ raw: `1${dir}/below` });
    const own = await attempt({ ...ports, default_cwd: null }, cat({ 'd/f': '2' }, 'd/f'));
    expect(own.value).toBe(2);
  });

  test('in place of what HOME was seeded with', async () => {
    const seed = mkdtempSync(join(folder, 'seed-'));
    mkdirSync(join(seed, '.tool'));
    writeFileSync(join(seed, '.tool', 'a'), 'seed', { mode: 0o644 });
    writeFileSync(join(seed, '.tool', 'b'), 'seed');
    const root = mkdtempSync(join(folder, 'scratch-'));
    const { ports } = await workFolder(folder, { scratch: await openScratch({ root, homeSeed: seed }) });
    const { value } = await attempt(ports, cat({ '~/.tool/a': 'ours,' }, '~/.tool/a', '~/.tool/b'));
    expect(value).toEqual({ raw: 'ours,seed', stderr: '' });
    expect(readFileSync(join(seed, '.tool', 'a'), 'utf8')).toBe('seed');
  });

  test('with {system_file}, which is written for them', async () => {
    const { ports } = await workFolder(folder);
    const blueprint = oneStep(
      shell('cat "$(cat ~/where)"', { files: { '~/where': '{system_file}' } }),
      {},
      {
        profile: { system_prompt: 'be brief' },
      },
    );
    expect((await runAttempt({ ...taskOf({ argv: ['x'] }), blueprint }, ports)).value).toMatchObject({
      raw: 'be brief',
    });
  });

  test('or the attempt is PlaceholderUnset, and nothing is written', async () => {
    const { dir, ports } = await workFolder(folder);
    const error = await refusal(attempt(ports, cat({ a: 'x', 'b/c': '{model}' }, 'a')));
    expect(issues(error)).toEqual(['PlaceholderUnset', ['missing_source', '/subprocesses/0/files/b~1c']]);
    expect(readdirSync(dir)).toEqual([]);
  });
});

test('are part of the command that is shown, only where they are declared', async () => {
  const files = { '~/a': '{prompt}', b: '{system_file}' };
  const blueprint = oneStep({ argv: ['x'], files }, {}, { profile: { system_prompt: 's' } });
  const shown = await previewCommand({ ...taskOf({ argv: ['x'] }), blueprint, in: { n: 1 } });
  expect(shown.files).toEqual({ '~/a': '{"n":1}', b: '$ATTEMPT/system.md' });
  expect(await previewCommand(taskOf({ argv: ['x'] }))).not.toHaveProperty('files');
});

describe('write over nothing', () => {
  test('a file with other content stays and refuses the start; one with the same bytes is taken as it is', async () => {
    const { dir, ports } = await workFolder(folder);
    mkdirSync(join(dir, 'conf'));
    writeFileSync(join(dir, 'conf', 'x'), 'mine', { mode: 0o644 });
    const template = cat({ 'conf/x': '{prompt}', 'conf/y': '!', new: '' }, 'conf/x', 'conf/y');
    const error = await refusal(attempt(ports, template, { in: 'other' }));
    expect(issues(error)).toEqual(['SpawnFailed', ['file_exists', '/subprocesses/0/files/conf~1x']]);
    expect(error.message).toBe(
      `spawn failed: file 'conf/x' below ${dir}: it exists with other content (4 bytes, the template's has 5) and is not overwritten; remove it, or choose another path, such as one below ~/`,
    );
    expect(readdirSync(dir, { recursive: true })).toEqual(['conf', 'conf/x']);
    const { value } = await attempt(ports, template, { in: 'mine' });
    expect(value).toEqual({ raw: 'mine!', stderr: '' });
    expect(readdirSync(dir, { recursive: true })).toEqual(['conf', 'conf/x']);
    expect(readFileSync(join(dir, 'conf', 'x'), 'utf8')).toBe('mine');
    expect(lstatSync(join(dir, 'conf', 'x')).mode & 0o777).toBe(0o644);
  });

  test('a symlink planted before the start refuses it, wherever it is, and its target stays as it was', async () => {
    const outside = mkdtempSync(join(folder, 'outside-'));
    writeFileSync(join(outside, 'f'), 'theirs');
    const { dir, ports } = await workFolder(folder);
    symlinkSync(outside, join(dir, 'dir'));
    symlinkSync(join(outside, 'f'), join(dir, 'file'));
    symlinkSync(join(outside, 'none'), join(dir, 'dangling'));
    mkdirSync(join(dir, 'a'));
    symlinkSync(outside, join(dir, 'a', 'deep'));
    const files = {
      'dir/f': '',
      'dir/new': '',
      file: 'theirs',
      dangling: '',
      'a/deep/b/c': '',
      'a/fine': '',
    };
    const error = await refusal(attempt(ports, cat(files, 'file')));
    expect(issues(error)).toEqual([
      'SpawnFailed',
      ...['a~1deep~1b~1c', 'dangling', 'dir~1f', 'dir~1new', 'file'].map((path) => [
        'symlink',
        `/subprocesses/0/files/${path}`,
      ]),
    ]);
    expect(error.issues[0]?.message).toBe(
      `file 'a/deep/b/c' below ${dir}: 'a/deep' is a symlink, and a folder is needed; remove it, or choose another path`,
    );
    expect([readdirSync(outside), readFileSync(join(outside, 'f'), 'utf8')]).toEqual([['f'], 'theirs']);
    expect(readdirSync(join(dir, 'a'))).toEqual(['deep']);
  });

  test('nor does one in the seed of HOME', async () => {
    const outside = mkdtempSync(join(folder, 'outside-'));
    const seed = mkdtempSync(join(folder, 'seed-'));
    symlinkSync(outside, join(seed, '.tool'));
    symlinkSync(join(outside, 'x'), join(seed, 'x'));
    const root = mkdtempSync(join(folder, 'scratch-'));
    const { ports } = await workFolder(folder, { scratch: await openScratch({ root, homeSeed: seed }) });
    const error = await refusal(attempt(ports, cat({ '~/.tool/s': '', '~/x': '' }, '~/x')));
    expect(issues(error)).toEqual([
      'SpawnFailed',
      ['symlink', '/subprocesses/0/files/~0~1.tool~1s'],
      ['symlink', '/subprocesses/0/files/~0~1x'],
    ]);
    expect([
      readdirSync(outside),
      readdirSync(ports.scratch.dir).filter((name) => name.startsWith('a')),
    ]).toEqual([[], []]);
  });

  test('folders, pipes and files in the way are told apart, without waiting for a pipe', async () => {
    const { dir, ports } = await workFolder(folder);
    mkdirSync(join(dir, 'd'));
    writeFileSync(join(dir, 'f'), '');
    await attempt(ports, shell('mkfifo p'));
    const error = await refusal(attempt(ports, cat({ d: '', 'f/x': '', p: '' }, 'f')));
    expect(error.issues.map(({ message }) => message.replace(/^.*?: /, ''))).toEqual([
      "'d' is a folder, and a file is to be written; remove it, or choose another path",
      "'f' is a file, and a folder is needed; remove it, or choose another path",
      "'p' is a named pipe, and a file is to be written; remove it, or choose another path",
    ]);
  });

  test('a directory that is missing is told as such', async () => {
    const { dir, ports } = await workFolder(folder);
    const error = await refusal(
      attempt(ports, { ...cat({ 'a/b': '', '~/x': '' }, 'x'), cwd: `${dir}/none` }),
    );
    expect(issues(error)).toEqual(['SpawnFailed', ['cwd_missing', '/subprocesses/0/cwd']]);
  });

  test('a path of almost 4 KB is written, and nothing is left', async () => {
    const { dir, ports } = await workFolder(folder);
    const deep = Array.from({ length: 19 }, () => 'x'.repeat(200)).join('/');
    const { value } = await attempt(
      ports,
      shell(`find . -type f | wc -l`, { files: { [`${deep}/f`]: '1' } }),
    );
    expect([value, readdirSync(dir)]).toEqual([1, []]);
  });
});

describe('are removed', () => {
  const files = { 'conf/deep/x': 'x', top: 't', 'made/y': 'y' };

  test.each<[string, JsonObject, object]>([
    ['passed', shell('cat top'), { status: 'passed' }],
    ['failed', shell('exit 3'), { reason: 'exit_nonzero' }],
    ['was killed', shell('kill -9 $$'), { reason: 'signalled' }],
    [
      'ran out of time',
      shell('sleep 60', { limits: { timeout_secs: 0.3, grace_secs: 0.1 } }),
      { reason: 'timed_out' },
    ],
    ['removed them itself', shell('rm -r conf/deep top made'), { status: 'passed' }],
  ])('when the child %s', async (_, template, expected) => {
    const { dir, ports } = await workFolder(folder);
    mkdirSync(join(dir, 'conf'));
    expect(await attempt(ports, { ...template, files })).toMatchObject({ ...expected, warnings: [] });
    expect(readdirSync(dir, { recursive: true })).toEqual(['conf']);
  });

  test('when it is cancelled, interrupted or cannot be started', async () => {
    const { dir, ports } = await workFolder(folder);
    for (const reason of ['cancelled', 'interrupted']) {
      const stop = new AbortController();
      const running = attempt(
        { ...ports, signal: stop.signal },
        shell('touch started; sleep 60', { files, limits: { grace_secs: 0.1 } }),
      );
      while (!existsSync(join(dir, 'started'))) await new Promise((resolve) => setTimeout(resolve, 10));
      expect(existsSync(join(dir, 'conf/deep/x'))).toBe(true);
      stop.abort(reason);
      const answer = await running.catch(({ code }) => code);
      if (reason === 'cancelled') expect(answer).toMatchObject({ reason });
      else expect(answer).toBe('AttemptInProgress');
      expect(readdirSync(dir)).toEqual(['started']);
      rmSync(join(dir, 'started'));
    }
    expect((await refusal(attempt(ports, { argv: ['/no/such'], files }))).code).toBe('SpawnFailed');
    expect((await refusal(attempt(ports, { argv: ['true', 'x'.repeat(140_000)], files }))).code).toBe(
      'SpawnFailed',
    );
    expect(readdirSync(dir)).toEqual([]);
  });

  test('changed in place, but not what the child put in their place or beside them', async () => {
    const { dir, ports } = await workFolder(folder);
    const script =
      'echo more >> top; echo mine > new; mv new conf/deep/x; echo z > made/z; echo "$(cat top)"';
    expect((await attempt(ports, shell(script, { files }))).value).toMatchObject({ raw: 'tmore' });
    expect(readdirSync(dir, { recursive: true }).sort()).toEqual([
      'conf',
      'conf/deep',
      'conf/deep/x',
      'made',
      'made/z',
    ]);
    expect(readFileSync(join(dir, 'conf/deep/x'), 'utf8')).toBe('mine\n');
  });

  test('not through a link that the child puts in the place of a folder', async () => {
    const outside = mkdtempSync(join(folder, 'outside-'));
    writeFileSync(join(outside, 'y'), 'y');
    const { dir, ports } = await workFolder(folder);
    const script = `rm -r made; ln -s ${outside} made; mv conf c2; ln -s c2 conf`;
    expect((await attempt(ports, shell(script, { files }))).ok).toBe(true);
    expect([readdirSync(outside), readdirSync(dir).sort()]).toEqual([['y'], ['c2', 'conf', 'made']]);
  });

  test('by the last of several attempts that share them', async () => {
    const { dir, ports } = await workFolder(folder);
    const lane = (secs: number) =>
      attempt(ports, shell(`sleep ${secs}; cat conf/deep/x top made/y`, { files }));
    const results = await Promise.all([lane(0), lane(0.3), lane(0.6), lane(0.1)]);
    expect(results.map(({ value }) => value)).toEqual(results.map(() => ({ raw: 'xty', stderr: '' })));
    expect(readdirSync(dir)).toEqual([]);
  });

  test('by the next process when ours is killed; the attempt is taken over with the same files', async () => {
    const script = join(import.meta.dirname, 'support', 'attempt-with-files.ts');
    const root = mkdtempSync(join(folder, 'kill-'));
    const dir = mkdtempSync(join(folder, 'work-'));
    for (let round = 0; round < 6; round++) {
      const args = [script, root, dir, `T-kill-${round}`];
      const killed = startProcess(process.execPath, args, { stdio: 'ignore' });
      const gone = new Promise((resolve) => killed.once('exit', resolve));
      await new Promise((resolve) => setTimeout(resolve, 250 + round * 60));
      killed.kill('SIGKILL');
      await gone;
      const next = startProcess(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
      expect(JSON.parse(await text(next.stdout))).toMatchObject({
        status: 'passed',
        artifacts: [{ name: 'out.txt' }],
      });
      expect(readdirSync(dir)).toEqual(['out.txt']);
    }
  }, 60_000);

  test('by a process that was there all along, which takes over the attempt of one that was killed', async () => {
    const script = join(import.meta.dirname, 'support', 'attempt-with-files.ts');
    const root = mkdtempSync(join(folder, 'kill-'));
    const { dir, ports } = await workFolder(folder, { scratch: await openScratch({ root }) });
    const args = [script, root, dir, 'T-taken', '60'];
    const killed = startProcess(process.execPath, args, { stdio: 'ignore' });
    while (!existsSync(join(dir, 'out.txt'))) await new Promise((resolve) => setTimeout(resolve, 10));
    const gone = new Promise((resolve) => killed.once('exit', resolve));
    killed.kill('SIGKILL');
    await gone;
    expect(existsSync(join(dir, 'conf/where'))).toBe(true);
    const store = folderStore(join(root, 'store'));
    const result = await runAttempt(withFiles(dir, 'T-taken', '60'), {
      ...ports,
      store,
      signal: AbortSignal.timeout(1000),
    }).catch(({ code }) => code);
    expect(result).toBe('AttemptInProgress');
    expect(readdirSync(dir)).toEqual(['out.txt']);
  });
});

describe.runIf(process.getuid?.() === 0)('with a user for children', () => {
  const user = { uid: 65534, gid: 65534 };

  test('belong to that user, folders too, and are removed', async () => {
    const { dir, ports } = await workFolder(folder, { child_user: user });
    openPath(dir, ports);
    chownSync(dir, user.uid, user.gid);
    const files = { '~/.tool/s': 's', 'conf/x': 'x' };
    const script =
      'cat ~/.tool/s conf/x; echo; stat -c %u:%g:%a ~/.tool ~/.tool/s conf conf/x; echo > conf/x';
    const { value } = await attempt(ports, shell(script, { files }));
    const expected = ['sx', ...['700', '600', '700', '600'].map((mode) => `65534:65534:${mode}`)].join('\n');
    expect([value, readdirSync(dir)]).toEqual([{ raw: expected, stderr: '' }, []]);
    const own = await attempt({ ...ports, default_cwd: null }, cat({ 'a/b': '1' }, 'a/b'));
    expect(own.value).toBe(1);
  });

  test('are not written where that user could not, nor compared with what it could not read', async () => {
    const { dir, ports } = await workFolder(folder, { child_user: user });
    openPath(dir, ports);
    writeFileSync(join(dir, 'secret'), 'hidden', { mode: 0o600 });
    mkdirSync(join(dir, 'theirs'));
    const error = await refusal(attempt(ports, cat({ 'new/x': '', 'theirs/x': '', secret: 'hidden' }, 'x')));
    expect(issues(error)).toEqual([
      'SpawnFailed',
      ...['new~1x', 'secret', 'theirs~1x'].map((path) => ['EACCES', `/subprocesses/0/files/${path}`]),
    ]);
    expect(readdirSync(dir, { recursive: true }).sort()).toEqual(['secret', 'theirs']);
  });

  /** Lets everybody pass down to both. */
  function openPath(dir: string, ports: RunPorts): void {
    for (const path of [folder, dirname(ports.scratch.dir), dir]) chmodSync(path, 0o755);
  }
});
