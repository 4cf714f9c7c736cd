/** A model API on loopback that answers Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import * as anthropic from './anthropic.ts';
import * as chat from './chat.ts';
import { type EventStream, openEventStream } from './event-stream.ts';
import * as gemini from './gemini.ts';
import * as responses from './responses.ts';
import { type Call, type Mode, type Reply, replyTo, TOKENS } from './turn.ts';

export interface Stub {
  readonly url: string;
  /** What was asked so far, also where it was not answered. */
  readonly calls: readonly Asked[];
  readonly stop: () => void;
}

export interface Asked extends Call {
  /** the key that came along */
  readonly key: string | null;
}

interface Protocol {
  readonly path: RegExp;
  readonly readCall: (body: unknown, path: string) => Call;
  readonly writeAnswer: (call: Call, reply: Reply, id: string) => unknown;
  readonly streamAnswer: (call: Call, reply: Reply, to: { stream: EventStream; id: string }) => void;
  readonly writeError: (status: number, message: string) => unknown;
}

const PROTOCOLS: readonly Protocol[] = [
  { path: /\/messages$/, ...anthropic },
  { path: /\/responses$/, ...responses, writeError: chat.writeError },
  { path: /\/chat\/completions$/, ...chat },
  {
    path: /\/models\/[^/]+:(g|streamG)enerateContent$/,
    ...gemini,
    readCall: (body, path) => {
      const [, model = '', method = ''] = /([^/]+):(\w+)$/.exec(path) ?? [];
      return gemini.readCall(body, decodeURIComponent(model), method.startsWith('stream'));
    },
  },
];

/** So that the bytes before a cut are read as such. */
const CUT_MS = 100;

/** Starts the stub on a free port. */
export async function startStub(mode: Mode): Promise<Stub> {
  const calls: Asked[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = new URL(request.url ?? '/', 'http://stub').pathname;
    const protocol = PROTOCOLS.find((known) => request.method === 'POST' && known.path.test(path));
    if (protocol) {
      const call = protocol.readCall(await json(request), path);
      calls.push({ ...call, key: keyOf(request.headers) });
      await answerCall({ protocol, call, mode, count: calls.length }, response);
    } else {
      const body = answerRest(path);
      send(response, body ? 200 : 404, body ?? { error: { message: `the stub has no ${path}` } });
    }
  };
  const server = createServer((request, response) => {
    answer(request, response).catch((error: Error) =>
      send(response, 400, { error: { message: error.message } }),
    );
  });
  server.requestTimeout = 0;
  server.on('upgrade', (_, socket) =>
    socket.end('HTTP/1.1 426 Upgrade Required\r\ncontent-length: 0\r\n\r\n'),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const stop = (): void => {
    server.close();
    server.closeAllConnections();
  };
  return { url: `http://127.0.0.1:${port}`, calls, stop };
}

async function answerCall(
  { protocol, call, mode, count }: { protocol: Protocol; call: Call; mode: Mode; count: number },
  response: ServerResponse,
): Promise<void> {
  if (mode === 'hang') return;
  const id = String(count);
  const reply = replyTo(call, mode, count);
  if (typeof mode === 'number') {
    send(response, mode, protocol.writeError(mode, `the stub says ${mode}`));
  } else if (call.stream) {
    protocol.streamAnswer(call, reply, { stream: openEventStream(response), id });
    if (!reply.cut) response.end();
  } else if (reply.cut) {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.write('{');
  } else {
    send(response, 200, protocol.writeAnswer(call, reply, id));
  }
  if (reply.cut) await sleep(CUT_MS).then(() => response.destroy());
}

function keyOf(headers: IncomingHttpHeaders): string | null {
  const key =
    headers['x-api-key'] ?? headers['x-goog-api-key'] ?? headers.authorization?.replace(/^Bearer /, '');
  return typeof key === 'string' ? key : null;
}

function answerRest(path: string): unknown {
  if (path.endsWith('count_tokens')) return { input_tokens: TOKENS.input };
  if (path.endsWith(':countTokens')) return { totalTokens: TOKENS.input };
  return path.endsWith('/models') ? { object: 'list', data: [], models: [] } : undefined;
}

function send(response: ServerResponse, status: number, body: unknown): void {
  // clients that honour it try again at once, so that a test of them ends soon
  response.writeHead(status, { 'content-type': 'application/json', 'retry-after-ms': '50' });
  response.end(JSON.stringify(body));
}
