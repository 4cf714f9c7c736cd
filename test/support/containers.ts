/** Containers of the spawn image, as Lambda would run it: one user without rights, nothing writable but /tmp. */
import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Box, Launch } from './runtime-api.ts';

export interface ContainerOptions {
  readonly image: string;
  readonly env: Readonly<Record<string, string>>;
  /** @default '512m' */
  readonly memory?: string;
  /** folder of the host that all containers share at /mnt */
  readonly shared?: string;
  /** in place of the image's own */
  readonly entrypoint?: readonly string[];
  /** what Lambda calls; `index.handler` when absent */
  readonly handler?: string;
}

/** No container outlives a test run that was killed for longer than this. */
const LIFETIME_SECS = 900;
const STORAGE = join(process.env.STEPSPAWN_CACHE || join(homedir(), '.cache', 'stepspawn'), 'containers');
/** What podman and buildah need to find them. */
export const ENVIRONMENT = { ...process.env, CONTAINERS_STORAGE_CONF: join(STORAGE, 'storage.conf') };

/** Of podman and its monitors, which leave a file `oom` there where a container runs out of memory. */
const CWD = mkdtempSync(join(tmpdir(), 'stepspawn-podman-'));
process.once('exit', () => rmSync(CWD, { recursive: true, force: true }));

/** As in Lambda: one user without rights, a read-only image, loopback of the host to reach the tests' servers. */
const CONFINED = [
  ...['run', '--rm', '--timeout', String(LIFETIME_SECS), '--network=host', '--ipc=none'],
  ...['--read-only', '--read-only-tmpfs=false', '--tmpfs', '/tmp:rw,size=512m,mode=1777'],
  ...['--user', '993:990', '--cap-drop=ALL', '--security-opt=no-new-privileges', '--pids-limit', '256'],
  ...['--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024'],
];

/** Starts a container of the image for each execution environment. */
export function container(options: ContainerOptions): Launch {
  return (api) => runContainer(options, api);
}

/** Runs podman on the images that .ci/image.sh builds; what it prints. */
export async function podman(...args: readonly string[]): Promise<string> {
  return (await promisify(execFile)('podman', ['--runtime', 'runc', ...args], { env: ENVIRONMENT, cwd: CWD }))
    .stdout;
}

/** Runs one program in a container of its own; what it prints. */
export function runOnce(image: string, ...argv: readonly string[]): Promise<string> {
  return podman(...CONFINED, '--entrypoint', JSON.stringify(argv), image);
}

/** Runs a shell script inside, as the container's own user. */
export function inside(box: Box, script: string): Promise<string> {
  return podman('exec', box.id, 'sh', '-c', script);
}

function runContainer(options: ContainerOptions, api: string): Box {
  const { image, env, memory = '512m', shared, entrypoint, handler = 'index.handler' } = options;
  const id = `stepspawn-${process.pid}-${randomBytes(4).toString('hex')}`;
  const variables = {
    ...env,
    AWS_LAMBDA_RUNTIME_API: api,
    _HANDLER: handler,
    AWS_LAMBDA_FUNCTION_NAME: 'spawn',
    AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(Number.parseInt(memory, 10)),
    AWS_LAMBDA_LOG_GROUP_NAME: '/aws/lambda/spawn',
    AWS_LAMBDA_LOG_STREAM_NAME: id,
    AWS_LAMBDA_INITIALIZATION_TYPE: 'on-demand',
  };
  const flags = [
    ...CONFINED,
    ...['--name', id, `--memory=${memory}`, `--memory-swap=${memory}`],
    ...(shared === undefined ? [] : ['--volume', `${shared}:/mnt`]),
    ...(entrypoint === undefined ? [] : ['--entrypoint', JSON.stringify(entrypoint)]),
    ...Object.entries(variables).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
  ];
  const running = spawn('podman', ['--runtime', 'runc', ...flags, image], {
    cwd: CWD,
    env: ENVIRONMENT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [running.stdout, running.stderr]) {
    stream.on('data', (chunk) => {
      log += chunk;
    });
  }
  const ended = new Promise<string>((resolve) => {
    running.once('error', (error) => resolve(`podman cannot be started: ${error.message}`));
    running.once('close', (code, signal) => resolve(`${signal ?? `exit status ${code}`}`));
  });
  const stop = async (): Promise<void> => {
    await podman('rm', '--force', '--time', '0', '--ignore', id);
    await ended;
  };
  return { id, ended, log: () => log, stop };
}
