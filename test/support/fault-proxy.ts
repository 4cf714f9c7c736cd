/** A proxy in front of an HTTP server that counts requests and does to the next ones what networks and S3 do. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';

/** What happens to one request. */
export type Fault =
  | 'pass'
  /** the connection is reset before the server sees anything */
  | 'reset'
  /** nothing is ever answered */
  | 'stall'
  /** the server does its work and the connection is reset in place of its answer */
  | 'lose-answer'
  /** half of the answer's body arrives, then the connection is reset */
  | 'cut-body'
  /** half of the answer's body arrives, then nothing */
  | 'stall-body'
  /** S3 answers with this error itself */
  | { readonly status: number; readonly code: string; readonly date?: Date };

export interface FaultProxy {
  readonly url: string;
  readonly port: number;
  /** what the next requests meet, one each; those that come after pass */
  readonly inject: (...faults: readonly Fault[]) => void;
  /** method and path of the requests since the last call; faults that no request has met are forgotten */
  readonly take: () => readonly string[];
  readonly stop: () => Promise<void>;
}

export async function startFaultProxy(port: number): Promise<FaultProxy> {
  let pending: Fault[] = [];
  let seen: string[] = [];
  const proxy = createServer((asked, answer) => {
    seen.push(`${asked.method} ${asked.url}`);
    meet(pending.shift() ?? 'pass', asked, answer, port);
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const address = proxy.address();
  if (address === null || typeof address === 'string') throw new Error('the proxy has no port');
  return {
    url: `http://127.0.0.1:${address.port}`,
    port: address.port,
    inject: (...faults) => {
      pending.push(...faults);
    },
    take: () => {
      const taken = seen;
      seen = [];
      pending = [];
      return taken;
    },
    stop: async () => {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

function meet(fault: Fault, asked: IncomingMessage, answer: ServerResponse, port: number): void {
  asked.on('error', () => undefined);
  if (fault === 'stall') {
    asked.resume();
  } else if (fault === 'reset') {
    asked.socket.resetAndDestroy();
  } else if (typeof fault === 'object') {
    asked.resume().once('end', () => refuse(fault, answer));
  } else {
    forward(fault, asked, answer, port);
  }
}

function refuse(fault: Extract<Fault, object>, answer: ServerResponse): void {
  const body = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>${fault.code}</Code><Message>${fault.code} was injected.</Message></Error>`;
  const date = (fault.date ?? new Date()).toUTCString();
  answer.writeHead(fault.status, { 'content-type': 'application/xml', date }).end(body);
}

type Forwarded = Extract<Fault, string>;

function forward(fault: Forwarded, asked: IncomingMessage, answer: ServerResponse, port: number): void {
  const { method, url: path, headers } = asked;
  const onward = request({ host: '127.0.0.1', port, method, path, headers }, (answered) => {
    if (fault === 'pass') {
      answer.writeHead(answered.statusCode ?? 500, answered.headers);
      answered.pipe(answer);
      return;
    }
    const chunks: Buffer[] = [];
    answered.on('data', (chunk: Buffer) => chunks.push(chunk));
    answered.once('end', () => {
      if (fault === 'lose-answer') {
        asked.socket.resetAndDestroy();
        return;
      }
      const body = Buffer.concat(chunks);
      answer.writeHead(answered.statusCode ?? 500, answered.headers);
      answer.write(body.subarray(0, body.length / 2), () => {
        if (fault === 'cut-body') asked.socket.resetAndDestroy();
      });
    });
  });
  onward.on('error', () => asked.socket.destroy());
  asked.once('close', () => asked.complete || onward.destroy());
  asked.pipe(onward);
}
