/** Named pipes, made ahead of need: Node cannot make one itself, and whoever can makes many at once. */
import { closeSync, constants, existsSync, openSync, renameSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import type { Starter } from './starter.ts';

const BATCH = 16;
const ready = new Map<string, string[]>();
const making = new Map<string, Promise<void>>();
let made = 0;

/** Moves a fresh 0600 named pipe to `path`. `root` is the folder in which the spare ones are kept. */
export async function takeFifo(root: string, path: string, make: Starter['makeFifos']): Promise<void> {
  for (;;) {
    const spare = ready.get(root)?.pop();
    if (spare === undefined) {
      await makeSpare(root, make);
      continue;
    }
    try {
      renameSync(spare, path);
      return;
    } catch (error) {
      // either the spare ones are gone, or where it should go
      if (existsSync(spare) || !existsSync(dirname(path))) throw error;
      ready.delete(root);
    }
  }
}

function makeSpare(root: string, make: Starter['makeFifos']): Promise<void> {
  const running = making.get(root);
  if (running) return running;
  const work = (async () => {
    const dir = join(root, 'fifos');
    await mkdir(dir, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error;
    });
    const paths = Array.from({ length: BATCH }, () => join(dir, String(made++)));
    await make(paths);
    const spare = ready.get(root) ?? [];
    spare.push(...paths);
    ready.set(root, spare);
  })().finally(() => making.delete(root));
  making.set(root, work);
  return work;
}

export interface Fifo {
  readonly reader: Socket;
  /** Closes our end to write to; then the end of the pipe is seen when the last writer has gone. */
  readonly closeWriter: () => void;
  readonly close: () => void;
}

/** Both ends of the pipe at `path`: a socket to read from, and a descriptor for the child to write to. */
export function openFifo(path: string): Fifo {
  const readFd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  let writeFd: number;
  try {
    writeFd = openSync(path, constants.O_WRONLY);
  } catch (error) {
    closeSync(readFd);
    throw error;
  }
  let isOpen = true;
  const closeWriter = (): void => {
    if (isOpen) closeSync(writeFd);
    isOpen = false;
  };
  try {
    const reader = new Socket({ fd: readFd, readable: true, writable: false });
    const close = (): void => {
      closeWriter();
      reader.destroy();
    };
    return { reader, closeWriter, close };
  } catch (error) {
    closeWriter();
    closeSync(readFd);
    throw error;
  }
}
