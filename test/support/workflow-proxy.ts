/** Where moto's tasks send their calls: those to Lambda are answered here, all others by moto. */
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { isObject, type JsonObject, parseJson } from '../../lib/json.ts';
import type { Answer } from './runtime-api.ts';

export interface WorkflowProxy {
  readonly port: number;
  /** port of moto, once it is known */
  readonly forwardTo: (port: number) => void;
  readonly stop: () => Promise<void>;
}

/** `invoke` is given the function's name. */
export async function startProxy(
  invoke: (name: string, event: JsonObject) => Promise<Answer>,
): Promise<WorkflowProxy> {
  let motoPort = 0;
  const proxy = createServer((asked, answer) => {
    const path = /^\/2015-03-31\/functions\/([^/]+)\/invocations/.exec(asked.url ?? '');
    if (!path) {
      forward(asked, answer, motoPort);
      return;
    }
    const name =
      decodeURIComponent(path[1] ?? '')
        .split(':')
        .at(-1) ?? '';
    answerInvocation(asked, answer, (event) => invoke(name, event)).catch(() => asked.socket.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return {
    port: (proxy.address() as AddressInfo).port,
    forwardTo: (port: number): void => {
      motoPort = port;
    },
    stop: async (): Promise<void> => {
      proxy.closeAllConnections();
      await new Promise((resolve) => proxy.close(resolve));
    },
  };
}

async function answerInvocation(
  asked: IncomingMessage,
  answer: ServerResponse,
  invoke: (event: JsonObject) => Promise<Answer>,
): Promise<void> {
  const { payload, error_type } = await invoke(parseJson((await text(asked)) || '{}') as JsonObject);
  const failed = error_type !== null && {
    'x-amz-function-error': 'Unhandled',
  };
  const body =
    error_type === null || isObject(payload) ? payload : { errorType: error_type, errorMessage: payload };
  answer.writeHead(200, { 'x-amz-executed-version': '$LATEST', ...failed });
  answer.end(JSON.stringify(body));
}

function forward(asked: IncomingMessage, answer: ServerResponse, port: number): void {
  const { method, url: path, headers } = asked;
  const onward = request({ host: '127.0.0.1', port, method, path, headers }, (answered) => {
    answer.writeHead(answered.statusCode ?? 500, answered.headers);
    answered.pipe(answer);
  });
  onward.on('error', () => asked.socket.destroy());
  asked.pipe(onward);
}
