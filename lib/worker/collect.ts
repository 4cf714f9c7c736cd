/** From what a child printed to its Outcome, and the files that hold its streams. */
import { appendFileSync, closeSync, lstatSync, openSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { StringDecoder } from 'node:string_decoder';
import type { Worker } from '../blueprint/compile.ts';
import type { Condition } from '../blueprint/output-schema.ts';
import { TAIL_BYTES } from '../limits.ts';
import type { Reason } from '../task.ts';
import { type Artifacts, createArtifactKeeper } from './artifacts.ts';
import { CHUNK_BYTES, chunksOf, readRange, SMALL_BYTES, sizeOf, textBefore } from './file-range.ts';
import { type LargeOutcome, normalizeFiles } from './large-output.ts';
import type { Mask } from './mask.ts';
import type { Scratch } from './scratch.ts';
import type { Exit } from './spawn.ts';
import { createStreamReader, noFinalEvent, type StreamMode, streamOutcome } from './stream.ts';
import type { FinalEvent, StreamEvent } from './stream-event.ts';
import { decodeUtf8 } from './text.ts';

/** One stream of the child: its size, its last 8 KiB as text, and all of it. */
export interface Printed {
  readonly size_bytes: number;
  readonly tail: string;
  /** all of it, secrets hidden; from the beginning each time it is called */
  readonly content: () => AsyncIterable<Uint8Array>;
  /** the file that holds the same, where nothing is hidden in it and it stays as it is */
  readonly file: string | null;
}

export interface Collected {
  readonly outcome: LargeOutcome;
  readonly stdout: Printed;
  readonly stderr: Printed;
  /** the file of recorded events, one JSON object a line; null outside stream modes */
  readonly events: string | null;
  readonly artifacts: Artifacts;
}

export interface Collector {
  /** stdout has grown: stream modes read what is new */
  readonly grow: (path: string) => void;
  readonly settle: (exit: Exit) => Promise<Collected>;
}

/** Reads the child's output as the worker declares it; in stream modes while the child runs. */
export function collectOutput(options: {
  readonly worker: Worker;
  readonly scratch: Pick<Scratch, 'file' | 'atEnd'>;
  /** hides secrets in tails, messages and stored streams; values stay as they are */
  readonly mask: Mask;
  readonly onEvent?: ((event: StreamEvent) => void) | undefined;
  readonly onOutput?: ((text: string) => void) | undefined;
}): Collector {
  const { worker, mask } = options;
  const { grow, settle } =
    worker.stream_mode === null ? collectPlain(options) : collectStream(worker, worker.stream_mode, options);
  return {
    grow,
    settle: async (exit) => {
      const collected = await settle(exit);
      const { message, warnings, reported_error } = collected.outcome;
      const hidden = (text: string | null): string | null => (text === null ? null : mask.message(text));
      const shown = {
        message: hidden(message),
        warnings: warnings.map(mask.message),
        ...(reported_error && {
          reported_error: { message: hidden(reported_error.message), class: hidden(reported_error.class) },
        }),
      };
      return { ...collected, outcome: { ...collected.outcome, ...shown } };
    },
  };
}

type Options = Parameters<typeof collectOutput>[0];

function collectPlain({ worker, mask, onOutput }: Options): Collector {
  const cover = mask.cover();
  const decoder = new StringDecoder('utf8');
  const tell = (bytes: Uint8Array): void => {
    const text = decoder.write(Buffer.from(bytes));
    if (text !== '') onOutput?.(text);
  };
  const reader = onOutput && readAsItGrows((chunk) => tell(cover.push(chunk)));
  return {
    grow: (path) => void reader?.(path).catch(() => undefined),
    settle: async (exit) => {
      await reader?.(exit.stdout.path);
      tell(cover.end());
      const outcome = await normalizeFiles({
        stdout: exit.stdout,
        stderr: exit.stderr,
        exit: exit.status,
        output: worker.path === 'template' ? worker.output : null,
        model: modelOf(worker),
        cause: reasonOf(exit),
        retry_when: retryOf(worker),
      });
      return { outcome, ...(await streamsOf(exit, mask)), events: null, artifacts: new Map() };
    },
  };
}

/** A function that reads what the file has more than at the last call, one call after the other. */
function readAsItGrows(take: (chunk: Buffer) => void | Promise<void>): (path: string) => Promise<void> {
  let offset = 0;
  let reading = Promise.resolve();
  const readOn = async (path: string): Promise<void> => {
    const size = await sizeOf(path);
    // who empties the file begins again
    offset = Math.min(offset, size);
    if (size === offset) return;
    if (size - offset <= SMALL_BYTES) {
      const chunk = await readRange(path, { start: offset, end: size });
      offset += chunk.length;
      return take(chunk);
    }
    const file = await open(path, 'r');
    try {
      const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
      for (;;) {
        const { bytesRead } = await file.read(chunk, 0, chunk.length, offset);
        if (bytesRead === 0) return;
        offset += bytesRead;
        await take(chunk.subarray(0, bytesRead));
      }
    } finally {
      await file.close();
    }
  };
  return (path) => {
    reading = reading.then(() => readOn(path));
    return reading;
  };
}

function collectStream(worker: Worker, mode: StreamMode, { scratch, mask, onEvent }: Options): Collector {
  const file = openSync(scratch.file('events.ndjson'), 'ax+', 0o600);
  scratch.atEnd(async () => closeSync(file));
  const events = `/proc/self/fd/${file}`;
  const finals: FinalEvent[] = [];
  const keeper = createArtifactKeeper(scratch.file('artifacts'));
  let lines = '';
  const record = (event: StreamEvent): void => {
    if (event.type === 'final') finals[0] = event;
    keeper.keep(event);
    lines += `${JSON.stringify(event)}\n`;
    onEvent?.(event);
  };
  const reader = createStreamReader(mode, record);
  const flush = async (): Promise<void> => {
    const text = lines;
    if (text === '') return;
    lines = '';
    appendFileSync(file, text);
  };
  const grow = readAsItGrows((chunk) => {
    reader.push(chunk);
    return flush();
  });
  return {
    grow: (path) => void grow(path).catch(() => undefined),
    settle: async (exit) => {
      await grow(exit.stdout.path);
      const report = reader.end();
      const lastFinal = finals[0] ?? null;
      const { stdout, stderr } = await streamsOf(exit, mask);
      const outcome = streamOutcome({
        lastFinal,
        exit: exit.status,
        cause: reasonOf(exit),
        model: modelOf(worker),
        retry_when: retryOf(worker),
        stderr: stderr.tail,
        ...report,
        warnings: [...report.warnings, ...keeper.warnings],
      });
      if (lastFinal === null) record(noFinalEvent(exit.status));
      await flush();
      return { outcome, stdout, stderr, events, artifacts: keeper.artifacts };
    },
  };
}

function modelOf(worker: Worker): string | null {
  return worker.path === 'template' ? worker.model : null;
}

function retryOf(worker: Worker): Condition | null {
  return worker.path === 'template' ? (worker.retry?.when ?? null) : null;
}

function reasonOf({ cause }: Exit): Reason | null {
  return cause === 'interrupted' ? 'cancelled' : cause;
}

async function streamsOf(
  exit: Exit,
  mask: Mask,
): Promise<{ readonly stdout: Printed; readonly stderr: Printed }> {
  const [stdout, stderr] = await Promise.all([printed(exit.stdout, mask), printed(exit.stderr, mask)]);
  return { stdout, stderr };
}

async function printed(
  { path, name, size_bytes, isFinal = false }: Exit['stdout'],
  mask: Mask,
): Promise<Printed> {
  const end = await sizeOf(path);
  // what is hidden may begin before the tail does
  const text = mask.text(await textBefore(path, end, TAIL_BYTES + mask.reach));
  const bytes = Buffer.from(text);
  const tail = mask.reach === 0 ? text : decodeUtf8(bytes.subarray(startOfTail(bytes)));
  const file = isFinal && mask.reach === 0 && isSameFile(path, name) ? name : null;
  return { size_bytes, tail, file, content: () => mask.bytes(chunksOf(path, { start: 0, end })) };
}

function isSameFile(path: string, name: string): boolean {
  const [open, named] = [statSync(path), lstatSync(name, { throwIfNoEntry: false })];
  return open.ino === named?.ino && open.dev === named.dev;
}

/** Where the last 8 KiB begin, at a character. */
function startOfTail(bytes: Uint8Array): number {
  let at = Math.max(0, bytes.length - TAIL_BYTES);
  while (at < bytes.length && (bytes[at]! & 0xc0) === 0x80) at++;
  return at;
}
