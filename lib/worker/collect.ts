/** From what a child printed to its Outcome, and the files that hold its streams. */
import { appendFile, open } from 'node:fs/promises';
import type { Worker } from '../blueprint/compile.ts';
import { TAIL_BYTES } from '../limits.ts';
import type { Outcome, Reason } from '../task.ts';
import { normalize } from './normalize.ts';
import type { Scratch } from './scratch.ts';
import type { Exit } from './spawn.ts';
import { createStreamReader, noFinalEvent, type StreamMode, streamOutcome } from './stream.ts';
import type { FinalEvent, StreamEvent } from './stream-event.ts';
import { decodeUtf8 } from './text.ts';

/** One stream of the child: its size, its last 8 KiB as text, and the file with all of it. */
export interface Printed {
  readonly size_bytes: number;
  readonly tail: string;
  readonly path: string;
}

export interface Collected {
  readonly outcome: Outcome;
  readonly stdout: Printed;
  readonly stderr: Printed;
  /** the file of recorded events, one JSON object a line; null outside stream modes */
  readonly events: string | null;
}

export interface Collector {
  /** stdout has grown: stream modes read what is new */
  readonly grow: () => void;
  readonly settle: (exit: Exit) => Promise<Collected>;
}

const CHUNK_BYTES = 256 * 1024;

/** Reads the child's output as the worker declares it; in stream modes while the child runs. */
export function collectOutput(options: {
  readonly worker: Worker;
  readonly scratch: Scratch;
  readonly onEvent?: ((event: StreamEvent) => void) | undefined;
}): Collector {
  const { worker } = options;
  return worker.stream_mode === null
    ? collectPlain(worker)
    : collectStream(worker, worker.stream_mode, options);
}

function collectPlain(worker: Worker): Collector {
  return {
    grow: () => undefined,
    settle: async (exit) => {
      const outcome = normalize({
        stdout: await readWhole(exit.stdout.path),
        stderr: decodeUtf8(await readWhole(exit.stderr.path)),
        exit: exit.status,
        output: worker.path === 'template' ? worker.output : null,
        model: modelOf(worker),
        cause: reasonOf(exit),
      });
      return { outcome, ...(await streamsOf(exit)), events: null };
    },
  };
}

function collectStream(
  worker: Worker,
  mode: StreamMode,
  {
    scratch,
    onEvent,
  }: { readonly scratch: Scratch; readonly onEvent?: ((event: StreamEvent) => void) | undefined },
): Collector {
  const events = scratch.file('events.ndjson');
  const finals: FinalEvent[] = [];
  let lines = '';
  const record = (event: StreamEvent): void => {
    if (event.type === 'final') finals[0] = event;
    lines += `${JSON.stringify(event)}\n`;
    onEvent?.(event);
  };
  const reader = createStreamReader(mode, record);
  let offset = 0;
  let reading = Promise.resolve();
  const flush = async (): Promise<void> => {
    const text = lines;
    lines = '';
    await appendFile(events, text, { mode: 0o600 });
  };
  const readOn = async (): Promise<void> => {
    const file = await open(scratch.file('stdout'), 'r');
    try {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, offset);
        if (bytesRead === 0) return;
        offset += bytesRead;
        reader.push(chunk.subarray(0, bytesRead));
        await flush();
      }
    } finally {
      await file.close();
    }
  };
  const grow = (): Promise<void> => {
    reading = reading.then(readOn);
    return reading;
  };
  return {
    grow: () => void grow().catch(() => undefined),
    settle: async (exit) => {
      await grow();
      const report = reader.end();
      const lastFinal = finals[0] ?? null;
      const { stdout, stderr } = await streamsOf(exit);
      const outcome = streamOutcome({
        lastFinal,
        exit: exit.status,
        cause: reasonOf(exit),
        model: modelOf(worker),
        stderr: stderr.tail,
        ...report,
      });
      if (lastFinal === null) record(noFinalEvent(exit.status));
      await flush();
      return { outcome, stdout, stderr, events };
    },
  };
}

function modelOf(worker: Worker): string | null {
  return worker.path === 'template' ? worker.model : null;
}

function reasonOf({ cause }: Exit): Reason | null {
  return cause === 'interrupted' ? 'cancelled' : cause;
}

async function streamsOf(exit: Exit): Promise<{ readonly stdout: Printed; readonly stderr: Printed }> {
  const [stdout, stderr] = await Promise.all([tailOf(exit.stdout), tailOf(exit.stderr)]);
  return { stdout, stderr };
}

async function tailOf({ path, size_bytes }: Exit['stdout']): Promise<Printed> {
  const file = await open(path, 'r');
  try {
    const { size } = await file.stat();
    const start = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
    const bytes = buffer.subarray(0, bytesRead);
    return {
      size_bytes,
      tail: decodeUtf8(start === 0 ? bytes : bytes.subarray(firstCharacter(bytes))),
      path,
    };
  } finally {
    await file.close();
  }
}

/** Offset of the first byte that begins a character. */
function firstCharacter(bytes: Uint8Array): number {
  let at = 0;
  while (at < Math.min(4, bytes.length) && (bytes[at]! & 0xc0) === 0x80) at++;
  return at;
}

async function readWhole(path: string): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    return await file.readFile();
  } finally {
    await file.close();
  }
}
