/** Servers and measured programs as processes of their own. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, connect as dial } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';

const START_MS = 20_000;

/** A running server; `stop` ends it and waits until it is gone. */
export interface Running {
  readonly stop: () => Promise<void>;
}

/** Starts a server and waits until something listens on the port. Throws what it said when it ends before that. */
export async function startServer(
  argv: readonly string[],
  port: number,
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const [program = '', ...args] = argv;
  const child = spawn(program, args, {
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let said = '';
  child.stderr.on('data', (text: Buffer) => {
    said = (said + text).slice(-4000);
  });
  const ended = once(child, 'close');
  for (const end = Date.now() + START_MS; !(await answers(port)); await pause(20)) {
    if (isOver(child) || Date.now() > end) {
      child.kill('SIGKILL');
      throw new Error(`${argv.join(' ')} does not listen on port ${port}: ${said}`);
    }
  }
  const stop = async (): Promise<void> => {
    if (!isOver(child)) child.kill('SIGTERM');
    await ended;
  };
  return { stop };
}

function isOver(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = dial(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}

/** A port of 127.0.0.1 that nothing listens on now. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port to be had');
  return address.port;
}

/** Runs a script of ours in a process of its own; what it prints as JSON. */
export async function runScript<T>(
  script: string,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<T> {
  const { stdout } = await promisify(execFile)(process.execPath, [script, ...args], {
    env: { PATH: process.env.PATH, ...env },
    maxBuffer: 10_000_000,
  });
  return JSON.parse(stdout) as T;
}
