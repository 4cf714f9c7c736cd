import { beforeAll, expect, test } from 'vitest';
import type { JsonObject } from '../../lib/json.ts';
import { shell, taskOf } from '../support/attempts.ts';
import type { LambdaFunction } from '../support/runtime-api.ts';
import { HOST_SECRETS, parsed, resultOf, spawnImage } from '../support/spawn-image.ts';

const { make, stored } = spawnImage();
/** Node under its own loader: what the image would be without the execute-only one. */
const UNPROTECTED = [
  '/usr/bin/tini',
  '-s',
  '--',
  '/usr/local/bin/node',
  '/opt/ric/index.mjs',
  'index.handler',
];
let lambda: LambdaFunction;

beforeAll(() => {
  lambda = make();
});

/** All that the child printed, which must be less than what a result carries itself. */
async function printed(script: string, on = lambda): Promise<string> {
  const result = resultOf(await on.invoke(taskOf(shell(script))));
  expect(result.reason, JSON.stringify(result)).toBeNull();
  return (result.value as JsonObject).raw as string;
}

/** Runs JavaScript in a child; what it evaluates to. */
async function evaluated(script: string, on = lambda, ...args: string[]): Promise<unknown> {
  const source = `(async () => { ${script} })().then((value) => console.log(JSON.stringify({ value })))`;
  const answer = resultOf(
    await on.invoke(
      taskOf({ argv: ['node', '-e', source, ...args], output: { format: 'json', result_ptr: '/value' } }),
    ),
  );
  expect(answer.reason, JSON.stringify(answer)).toBeNull();
  return answer.value;
}

const ENVIRONMENTS =
  'for f in /proc/[0-9]*/environ; do echo "$f"; tr "\\0" "\\n" < "$f"; done 2>/dev/null; true';

test('a child finds the host in no environment of any process', async () => {
  const found = await printed(ENVIRONMENTS);
  expect(found).toContain('MSE_TASK_ID=');
  expect(found).toContain('/proc/1/environ');
  for (const secret of Object.values(HOST_SECRETS)) expect(found).not.toContain(secret);
  expect(found).not.toContain('STORE_URL');
});

test('the same child finds it all where Node runs under its own loader', async () => {
  const found = await printed(ENVIRONMENTS, make({ entrypoint: UNPROTECTED }));
  for (const secret of Object.values(HOST_SECRETS)) expect(found).toContain(secret);
});

/** What a child may open of each process that is not its own: `pid/what`. */
const OPENED = `
  const fs = require('node:fs');
  const tries = {
    environ: (dir) => fs.readFileSync(dir + '/environ'),
    memory: (dir) => fs.closeSync(fs.openSync(dir + '/mem', 'r')),
    'memory for writing': (dir) => fs.closeSync(fs.openSync(dir + '/mem', 'r+')),
    maps: (dir) => fs.readFileSync(dir + '/maps'),
    descriptors: (dir) => fs.readdirSync(dir + '/fd').map((fd) => fs.readlinkSync(dir + '/fd/' + fd)),
    'descriptor 0': (dir) => fs.closeSync(fs.openSync(dir + '/fd/0', 'r')),
    root: (dir) => fs.readdirSync(dir + '/root'),
    directory: (dir) => fs.readdirSync(dir + '/cwd'),
    'memory map of a thread': (dir) => fs.readdirSync(dir + '/task').map((id) => fs.readFileSync(dir + '/task/' + id + '/environ')),
  };
  const others = fs.readdirSync('/proc').filter((pid) => /^[0-9]+$/.test(pid) && pid !== String(process.pid));
  const opened = others.flatMap((pid) => Object.entries(tries).flatMap(([what, attempt]) => {
    try { attempt('/proc/' + pid); return [pid + ' ' + what]; } catch (error) {
      return ['EACCES', 'EPERM'].includes(error.code) ? [] : [pid + ' ' + what + ' ' + error.code]; }
  }));
  return { others: others.length, opened };`;

// init, Node, the launcher and its guardian
test("a child can open neither memory nor descriptors of the function's processes", async () => {
  expect(await evaluated(OPENED)).toEqual({ others: 4, opened: [] });
});

test('the same child can open them where Node runs under its own loader', async () => {
  const { opened } = (await evaluated(OPENED, make({ entrypoint: UNPROTECTED }))) as { opened: string[] };
  expect(opened.filter((each) => each.endsWith(' memory for writing')).length).toBe(1);
});

test('a child inherits no descriptor but its own three, also of those that the runtime client opens', async () => {
  for (let warm = 0; warm < 3; warm++) {
    const lines = (await printed('ls -l /proc/$$/fd')).split('\n');
    const open = lines.flatMap((line) => / (\d+) -> (.*)$/.exec(line)?.slice(1).join(' ') ?? []);
    const beyond = open.filter((each) => !/^[012] /.test(each));
    expect([open.length - beyond.length, ...beyond.filter((each) => !each.endsWith(' /dev/null'))]).toEqual([
      3,
    ]);
  }
});

test('nothing is writable but /tmp, and there are no rights to gain', async () => {
  const found = await printed(
    'id -u; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status | tr -d "\\t "; ' +
      'find / -xdev -perm /6000 -type f 2>/dev/null; ' +
      'for d in / /var/task /opt /usr/bin /var/tmp /run /dev/shm "$HOME" "$TMPDIR" /tmp; do touch "$d/x" 2>/dev/null && echo "$d"; done | sed "s#/tmp/.*#private#"',
  );
  const rights = ['993', 'CapEff:0000000000000000', 'CapBnd:0000000000000000', 'NoNewPrivs:1'];
  expect(found.split('\n')).toEqual([...rights, ...['private', 'private', '/tmp']]);
});

test('a child that answers for us through the Runtime API changes one answer, not what is stored', async () => {
  const own = make();
  const script = `
    const api = 'http://' + process.argv[1] + '/2018-06-01/runtime/invocation/';
    const next = await fetch(api + 'next');
    const id = next.headers.get('lambda-runtime-aws-request-id');
    const { task_id } = await next.json();
    const { status } = await fetch(api + id + '/response', { method: 'POST', body: '"forged"' });
    return { task_id, status };`;
  expect(resultOf(await own.invoke(taskOf(shell('echo 1')))).value).toBe(1);
  const [environment] = own.environments();
  const source = `(async () => { ${script} })().then((value) => console.log(JSON.stringify(value)))`;
  const event = taskOf({ argv: ['node', '-e', source, environment!.api] }, { task_id: 'forger' });
  const answer = await own.invoke(event);
  expect(answer.payload).toBe('forged');

  const next = resultOf(await own.invoke(taskOf(shell('echo 2'))));
  expect(next.value).toBe(2);
  const again = resultOf(await own.invoke(event));
  expect(again).toMatchObject({
    task_id: 'forger',
    replayed: true,
    value: { task_id: 'forger', status: 202 },
  });
  expect({ ...again, replayed: false }).toEqual(parsed(await stored('forger')));
});
