/** A real S3 server for tests: moto, as a process of its own on loopback. */
import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

export interface S3Server {
  readonly url: string;
  readonly port: number;
  readonly stop: () => Promise<void>;
}

const START_MS = 30_000;

const UNPACK = join(import.meta.dirname, '..', '..', '.ci', 's3-server.sh');

/** The Python that MOTO_PYTHON names, else the one that .ci/s3-server.sh unpacks, now if it has not yet. */
async function motoPython(): Promise<string> {
  const { MOTO_PYTHON } = process.env;
  if (MOTO_PYTHON) return MOTO_PYTHON;
  try {
    return (await promisify(execFile)(UNPACK)).stdout.trim().split('\n').at(-1) ?? '';
  } catch (error) {
    throw new Error(
      'no S3 server to test against: .ci/s3-server.sh failed (it needs Debian and its packages); or let MOTO_PYTHON ' +
        "name a Python with pip's moto[server] 5.2 or later",
      { cause: error },
    );
  }
}

/**
 * Starts the server on a free port of 127.0.0.1; `env` are settings of moto. It ends with `stop`, and with this process
 * whatever happens.
 */
export async function startS3(env: Readonly<Record<string, string>> = {}): Promise<S3Server> {
  const script = join(import.meta.dirname, 'run-moto.py');
  const server = spawn(await motoPython(), [script, '-H', '127.0.0.1', '-p', '0'], {
    env: { PATH: process.env.PATH, ...env },
  });
  const ended = new Promise<void>((resolve) => server.once('close', () => resolve()));
  const stop = async (): Promise<void> => {
    server.stdin.end();
    await ended;
  };
  const port = await announcedPort(server).catch(async (error) => {
    server.kill('SIGKILL');
    throw error;
  });
  return { url: `http://127.0.0.1:${port}`, port, stop };
}

function announcedPort(server: ChildProcessWithoutNullStreams): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = '';
    const fail = (why: string): void => reject(new Error(`the S3 server ${why}: ${said.slice(-2000)}`));
    const timer = setTimeout(() => fail(`did not start within ${START_MS} ms`), START_MS);
    const listen = (text: Buffer): void => {
      said += text;
      const port = /Running on http:\/\/127\.0\.0\.1:(\d+)/.exec(said)?.[1];
      if (port === undefined) return;
      clearTimeout(timer);
      server.stderr.off('data', listen).resume();
      resolve(Number(port));
    };
    server.stdout.resume();
    server.stderr.on('data', listen);
    server.once('error', (error) => fail(`cannot be started (${error.message})`));
    server.once('close', (code) => fail(`ended with exit code ${code}`));
  });
}
