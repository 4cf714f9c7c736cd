/** The artifacts of a template: files that the child left, stored whole, and nothing else. */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runAttempt } from '../lib/attempt.ts';
import type { JsonObject, JsonValue } from '../lib/json.ts';
import type { RunPorts } from '../lib/run.ts';
import { localSecrets } from '../lib/secrets.ts';
import type { Artifact, TaskResult } from '../lib/task.ts';
import { openScratch } from '../lib/worker/scratch.ts';
import { attempt, shell, taskOf } from './support/attempts.ts';
import { faultyStore } from './support/faulty-store.ts';
import { temporaryFolder } from './support/ports.ts';
import { workFolder } from './support/work-folder.ts';

const folder = temporaryFolder();
const sha256 = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');

/** A script whose artifacts are these globs; one that ends in `!` is required. */
function leaves(script: string, globs: readonly string[], rest: JsonObject = {}): JsonObject {
  const artifacts = globs.map(
    (glob): JsonValue => (glob.endsWith('!') ? { glob: glob.slice(0, -1), required: true } : { glob }),
  );
  return shell(script, { artifacts, ...rest });
}

const names = ({ artifacts }: TaskResult): string[] | undefined => artifacts?.map(({ name }) => name);

/** What the store holds of them, by name. */
async function contents(
  ports: RunPorts,
  artifacts: readonly Artifact[] = [],
): Promise<Record<string, string>> {
  const found = artifacts.map(async ({ name, key }) => [name, String((await ports.store.read(key))?.body)]);
  return Object.fromEntries(await Promise.all(found));
}

describe('are stored', () => {
  test('whole, with size, digest and type, sorted by name, each once', async () => {
    const { ports, dir } = await workFolder(folder);
    const script =
      'mkdir -p out/é ~/.tool; printf one > out/b.md; printf two > "out/é/a b.PNG"; printf 3 > ~/.tool/log.jsonl; : > out/~x; echo';
    const template = leaves(script, ['out/**', 'out/*.md', '~/.tool/*.jsonl!']);
    const result = await attempt(ports, template, { task_id: 'T-a', attempt: 2 });
    const entry = (name: string, key: string, content: string, media_type: string) => ({
      name,
      key: `tasks/T-a/2/artifacts/${key}`,
      size_bytes: content.length,
      sha256: sha256(content),
      media_type,
    });
    expect(result).toMatchObject({ ok: true, warnings: [] });
    expect(result.artifacts).toEqual([
      entry('out/b.md', 'out/b.md', 'one', 'text/markdown'),
      entry('out/~x', 'out/%7Ex', '', 'application/octet-stream'),
      entry('out/é/a b.PNG', 'out/%C3%A9/a%20b.PNG', 'two', 'image/png'),
      entry('~/.tool/log.jsonl', '%7E/.tool/log.jsonl', '3', 'application/x-ndjson'),
    ]);
    expect(await contents(ports, result.artifacts)).toEqual({
      'out/b.md': 'one',
      'out/~x': '',
      'out/é/a b.PNG': 'two',
      '~/.tool/log.jsonl': '3',
    });
    expect(readdirSync(dir)).toEqual(['out']);
    const { replayed, ...again } = await runAttempt(taskOf(template, { task_id: 'T-a', attempt: 2 }), ports);
    expect([replayed, { ...again, replayed: false }]).toEqual([true, result]);
  });

  test('from the directory of the attempt, which is removed afterwards', async () => {
    const { ports } = await workFolder(folder, { default_cwd: null });
    const result = await attempt(ports, leaves('echo 1 > a.txt', ['*.txt!']));
    expect(await contents(ports, result.artifacts)).toEqual({ 'a.txt': '1\n' });
    expect(readdirSync(ports.scratch.dir).filter((name) => name.startsWith('a'))).toEqual([]);
  });

  test.each<[string, string, JsonObject, object]>([
    ['fails', 'exit 4', {}, { ok: false, reason: 'exit_nonzero', message: expect.stringContaining('4') }],
    ['is killed', 'kill -9 $$', {}, { reason: 'signalled' }],
    [
      'runs out of time',
      'sleep 60',
      { limits: { timeout_secs: 0.3, grace_secs: 0.1 } },
      { reason: 'timed_out' },
    ],
  ])('when the child %s, which keeps its reason', async (_, end, rest, expected) => {
    const { ports } = await workFolder(folder);
    const result = await attempt(ports, leaves(`echo 1 > a; ${end}`, ['a', 'b!'], rest));
    expect(result).toMatchObject(expected);
    expect([names(result), result.warnings]).toEqual([
      ['a'],
      [expect.stringContaining("the required artifact 'b' is missing")],
    ]);
  });

  test('where declared, and only there: an empty list when nothing matches, none without a declaration', async () => {
    const { ports } = await workFolder(folder);
    expect(await attempt(ports, leaves('echo 1', ['*.md']))).toMatchObject({
      ok: true,
      artifacts: [],
      warnings: [],
    });
    expect(await attempt(ports, shell('echo 1'))).not.toHaveProperty('artifacts');
  });

  test('without the files that the template wrote, whatever became of them, and without hidden names', async () => {
    const { ports } = await workFolder(folder);
    const files = { 'in/a.md': 'a', 'in/b.md': 'b', '~/c.md': 'c' };
    const script =
      'echo more >> in/a.md; echo new > t; mv t in/b.md; echo d > in/d.md; echo e > ~/e.md; echo x > in/.x.md';
    const result = await attempt(ports, leaves(script, ['**/*.md', '~/**'], { files }));
    expect([names(result), result.warnings]).toEqual([['in/d.md', '~/e.md'], []]);
  });

  test('beside those of a stream, of which one of the same name is kept', async () => {
    const { ports } = await workFolder(folder);
    const event = (name: string) =>
      JSON.stringify({ type: 'artifact', name, content: { kind: 'inline', value: 'event' } });
    const final = JSON.stringify({ type: 'final', content: { kind: 'inline', value: 1 }, ok: true });
    const script = `mkdir out; for f in a.md b.md out/c.md; do echo file > $f; done; cat <<'X'\n${['a.md', 'out', 'z/y'].map(event).join('\n')}\n${final}\nX`;
    const result = await attempt(ports, leaves(script, ['**!'], { stream_mode: 'ndjson_lines' }), {
      task_id: 'T-s',
    });
    expect(result).toMatchObject({ ok: true, value: 1 });
    expect(await contents(ports, result.artifacts)).toEqual({ 'b.md': 'file\n' });
    expect(result.warnings).toEqual(
      ['a.md', 'out/c.md'].map(
        (name) => `artifact not stored: '${name}' has the name of an artifact event, which is stored`,
      ),
    );
    const keys = await ports.store.list('tasks/T-s/1/artifacts/');
    expect(keys.map((key) => key.slice('tasks/T-s/1/artifacts/'.length))).toEqual([
      'a.md',
      'b.md',
      'out',
      'z%2Fy',
    ]);
  });
});

describe('stay within their folder', () => {
  test('links to files and folders are refused, planted before or made by the child, and links above are not followed', async () => {
    const outside = mkdtempSync(join(folder, 'outside-'));
    writeFileSync(join(outside, 'secret.md'), 'secret');
    const { ports, dir } = await workFolder(folder);
    symlinkSync(join(outside, 'secret.md'), join(dir, 'planted.md'));
    symlinkSync(outside, join(dir, 'folder'));
    const script = `ln -s ${outside}/secret.md made.md; ln -s / root; ln -s ${outside} ~/h; ln -s . loop; echo 1 > fine.md`;
    const result = await attempt(
      ports,
      leaves(script, ['**/*.md', 'folder/*', '~/h/*', '~/*', 'root/etc/passwd']),
    );
    expect(names(result)).toEqual(['fine.md']);
    expect([...result.warnings].sort()).toEqual([
      "artifact not stored: 'made.md' is a symlink",
      "artifact not stored: 'planted.md' is a symlink",
      "artifact not stored: '~/h' is a symlink",
    ]);
  });

  test('a child that puts links in the place of its own directory and of HOME gains nothing', async () => {
    const outside = mkdtempSync(join(folder, 'outside-'));
    writeFileSync(join(outside, 'secret.md'), 'secret');
    const { ports } = await workFolder(folder, { default_cwd: null });
    const script = `echo 1 > fine.md; w=$(pwd); mv "$w" "$w-2"; ln -s ${outside} "$w"; mv ~ ~-2; ln -s ${outside} "$HOME"`;
    const result = await attempt(ports, leaves(script, ['**', '~/**']));
    expect([names(result), result.ok]).toEqual([['fine.md'], true]);
  });

  test('pipes, sockets and devices are refused and hold nobody', async () => {
    const { ports } = await workFolder(folder);
    const socket = `require('net').createServer().listen('s', () => process.exit())`;
    const script = `mkfifo p; "${process.execPath}" -e "process.on('exit',()=>process.kill(process.pid,'SIGKILL'));${socket}"; echo 1 > f; ls`;
    const result = await attempt(ports, leaves(script, ['*', 'p!']));
    expect(names(result)).toEqual(['f']);
    expect(result.reason).toBe('artifact_missing');
    expect(result.message).toMatch(/^the required artifact 'p' is missing below \S+: 'p' is a named pipe$/);
    expect([...result.warnings].sort()).toEqual([
      "artifact not stored: 'p' is a named pipe",
      "artifact not stored: 's' is a socket",
    ]);
  });

  test('a file whose name is not UTF-8 is told', async () => {
    const { ports } = await workFolder(folder);
    const result = await attempt(
      ports,
      leaves('mkdir out; echo 1 > out/a; echo 1 > b; printf x > "$(printf "bad\\377")"', ['**']),
    );
    expect(names(result)).toEqual(['b', 'out/a']);
    expect(result.warnings).toEqual([
      expect.stringMatching(/^artifact not stored: 'bad\ufffd' cannot be read: ENOENT/),
    ]);
  });

  test('names that are paths, too long for a key or a folder named ~ do not become other keys', async () => {
    const { ports } = await workFolder(folder);
    const script = `mkdir -p '~' 'a%2Fb'; echo 1 > '~/x'; echo 2 > 'a%2Fb/y'; echo 3 > "$(printf 'é%.0s' $(seq 60))"; printf 4 > '..z'`;
    const result = await attempt(ports, leaves(script, ['**', '.*', '**/é*!']));
    const long = 'é'.repeat(60);
    expect(await contents(ports, result.artifacts)).toEqual({ 'a%2Fb/y': '2\n', '..z': '4', [long]: '3\n' });
    expect(result.artifacts?.map(({ key }) => key.split('/artifacts/')[1])).toEqual([
      '..z',
      'a%252Fb/y',
      `@${sha256(long)}`,
    ]);
    expect([result.ok, ...result.warnings]).toEqual([
      true,
      "artifact not stored: '~/x' is in a folder named ~, which stands for HOME",
    ]);
  });

  test('scratch folders that lie in the directory of the child are left out', async () => {
    const { ports, dir } = await workFolder(folder);
    const scratch = await openScratch({ root: dir });
    const result = await attempt({ ...ports, scratch }, leaves('echo 1 > a; echo h > ~/h', ['**']));
    expect(names(result)).toEqual(['a']);
  });

  test('what changes or goes away before it is stored fails a step that would pass', async () => {
    for (const change of ['rm', 'cut', 'swap'] as const) {
      const { ports, dir } = await workFolder(folder);
      const file = join(dir, 'a');
      const store: RunPorts['store'] = {
        ...ports.store,
        upload: async (key, content) => {
          if (key.endsWith('/stdout')) {
            if (change === 'cut') truncateSync(file, 1);
            else rmSync(file);
            if (change === 'swap') symlinkSync('/etc/hostname', file);
          }
          return ports.store.upload(key, content);
        },
      };
      const result = await attempt(
        { ...ports, store },
        leaves('echo 12345 > a; echo 1 > b; head -c 9000 /dev/zero', ['*']),
      );
      expect([names(result), result.reason]).toEqual([['b'], 'artifact_missing']);
      expect(result.message).toBe("artifacts changed or went away before they were stored: 'a'");
    }
  });
});

describe('required ones', () => {
  test.each<[string, string, string]>([
    ['echo 1 > out/rapport.md', 'out/report.md', "below DIR: 'out' holds 'rapport.md', 'x'"],
    ['mkdir output', 'outs/*.md', "below DIR: it holds 'out', 'output'"],
    ['rm -r out', 'out/**/*.md', 'below DIR: it holds nothing'],
    ['mkdir out/d.md', 'out/*.md', "below DIR: 'out' holds 'd.md', 'x'"],
    ['ln -s x out/l.md', 'out/*.md', "below DIR: 'out/l.md' is a symlink"],
    ['echo 1 > ~/b', '~/a', "below ~, the HOME of the attempt: it holds 'b'"],
    [
      'for i in 1 2 3 4 5 6 7; do : > out/$i; done',
      'out/8',
      "below DIR: 'out' holds '1', '2', '3', '4', '5', and 3 more",
    ],
  ])('%s: %s is missing, and the message tells what is near', async (script, glob, expected) => {
    const { ports, dir } = await workFolder(folder);
    const result = await attempt(ports, leaves(`mkdir out; : > out/x; ${script}; echo '"v"'`, [`${glob}!`]));
    expect(result).toMatchObject({
      status: 'blocked',
      ok: false,
      reason: 'artifact_missing',
      value: 'v',
      artifacts: [],
    });
    expect(result.message).toBe(`the required artifact '${glob}' is missing ${expected.replace('DIR', dir)}`);
  });

  test('all that are missing are named, and one of several files is enough', async () => {
    const { ports } = await workFolder(folder);
    const result = await attempt(ports, leaves('echo > a.md', ['*.md!', '{a,b}.md!', 'c!', '~/d!', 'e']));
    expect(result.message).toMatch(/'c' is missing .*; the required artifact '~\/d' is missing /);
    expect(names(result)).toEqual(['a.md']);
    expect(await attempt(ports, leaves('echo > a.md', ['*.md!', '{a,b}.md!']))).toMatchObject({ ok: true });
  });
});

test('a store that fails, loses or delays one of the uploads gets all of them in the end', async () => {
  for (const fault of ['fails', 'lost', 'late'] as const) {
    const { ports } = await workFolder(folder);
    let failed = 0;
    const store = faultyStore(ports.store, (_, what) =>
      what.includes('artifacts/') && failed++ < 2 ? fault : undefined,
    );
    const result = await attempt({ ...ports, store }, leaves('for f in a b c; do echo $f > $f; done', ['*']));
    expect(await contents(ports, result.artifacts)).toEqual({ a: 'a\n', b: 'b\n', c: 'c\n' });
  }
});

describe('bounds', () => {
  test('over limits.artifact_bytes a step fails; what fits is stored whole, the rest named', async () => {
    const { ports } = await workFolder(folder);
    const script = 'for f in a b d; do printf 1234 > $f; done; printf 1234567 > c';
    const limits = { artifact_bytes: 10 };
    const result = await attempt(ports, leaves(script, ['*', 'nothing!'], { limits }));
    const text =
      "the artifacts have 19 bytes together, limits.artifact_bytes allows 10; not stored: 'c' (7 bytes), 'd' (4 bytes); raise the limit or narrow the globs";
    expect(result).toMatchObject({ ok: false, reason: 'output_limit', message: text, warnings: [text] });
    expect(await contents(ports, result.artifacts)).toEqual({ a: '1234', b: '1234' });
    const exact = await attempt(ports, leaves(script, ['[ac]'], { limits: { artifact_bytes: 11 } }));
    expect([exact.ok, names(exact)]).toEqual([true, ['a', 'c']]);
    const failed = await attempt(ports, leaves(`${script}; exit 3`, ['*'], { limits }));
    expect(failed).toMatchObject({ reason: 'exit_nonzero', warnings: [text] });
  });

  test('more than a thousand files, or a folder below a hundred, fail a step', async () => {
    const { ports } = await workFolder(folder);
    const many = await attempt(ports, leaves('seq 1001 | xargs touch', ['**']));
    expect([many.reason, many.message, many.artifacts?.length]).toEqual([
      'output_limit',
      '1001 files match as artifacts, at most 1000 are stored; narrow the globs',
      1000,
    ]);
    const deep = `p=$(printf 'd/%.0s' $(seq 101)); mkdir -p $p; echo 1 > a`;
    const dir = mkdtempSync(join(folder, 'deep-'));
    const far = await attempt(ports, leaves(deep, ['**/a'], { cwd: dir }));
    expect([far.reason, names(far)]).toEqual(['output_limit', ['a']]);
    expect(await attempt(ports, leaves('true', ['a!'], { cwd: dir }))).toMatchObject({ ok: true });
  }, 60_000);

  test('globs and names that were made to take long end soon', async () => {
    const { ports } = await workFolder(folder);
    const long = 'a'.repeat(250);
    const script = `seq 10000 | while read i; do : > ${long}$i; done`;
    const start = performance.now();
    const result = await attempt(
      ports,
      leaves(
        script,
        Array.from({ length: 20 }, () => `${'*a'.repeat(250)}b`),
      ),
    );
    expect([result.reason, result.message]).toEqual([
      'output_limit',
      expect.stringContaining('took too long'),
    ]);
    expect(performance.now() - start).toBeLessThan(20_000);
  }, 60_000);

  test('a folder that no glob leads to is not looked at', async () => {
    const { ports } = await workFolder(folder);
    const script =
      'mkdir out closed; echo 1 > out/a; for d in $(seq 60); do mkdir -p node/d$d; done; ln -s nowhere closed/x';
    expect(await attempt(ports, leaves(script, ['out/**']))).toMatchObject({ ok: true, warnings: [] });
  });
});

test('secrets in artifacts are not hidden, those in messages about them are', async () => {
  const secrets = localSecrets({ api: 'env:T' }, { T: 'a-long-secret' });
  const { ports } = await workFolder(folder, { secrets });
  const script = 'echo "$KEY" > a; ln -s a "$KEY"';
  const result = await attempt(ports, leaves(script, ['*'], { secrets: { KEY: 'api' } }));
  expect(await contents(ports, result.artifacts)).toEqual({ a: 'a-long-secret\n' });
  expect(result.warnings).toEqual(["artifact not stored: '*************' is a symlink"]);
});

describe.runIf(process.getuid?.() === 0)('with a user for children', () => {
  test('what that user cannot read is not taken for it', async () => {
    const user = { uid: 65534, gid: 65534 };
    const { ports, dir } = await workFolder(folder, { child_user: user });
    for (const path of [folder, dirname(ports.scratch.dir), dir]) chmodSync(path, 0o755);
    mkdirSync(join(dir, 'shut'), { mode: 0o711 });
    writeFileSync(join(dir, 'shut', 'a'), 'secret');
    writeFileSync(join(dir, 'b'), 'secret', { mode: 0o600 });
    mkdirSync(join(dir, 'theirs'));
    chownSync(join(dir, 'theirs'), user.uid, user.gid);
    linkSync(join(dir, 'b'), join(dir, 'theirs', 'link'));
    const result = await attempt(ports, leaves('echo 1 > theirs/c; echo 2 > ~/d', ['**', '~/d']));
    expect(names(result)).toEqual(['theirs/c', '~/d']);
    expect([...result.warnings].sort()).toEqual([
      "artifact not stored: 'b' cannot be read: EACCES",
      "artifact not stored: 'theirs/link' cannot be read: EACCES",
      "artifact not stored: the folder 'shut' cannot be read: EACCES",
    ]);
  });
});
