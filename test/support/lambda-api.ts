/** Lambda's Invoke on loopback, for asynchronous invocations: answers 202 and then calls the handler, as AWS does. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';

export interface LambdaApi {
  readonly url: string;
  /** function name and event of every invocation */
  readonly invocations: { readonly name: string; readonly event: unknown }[];
  readonly stop: () => Promise<void>;
}

export async function startLambdaApi(handler: (event: unknown) => Promise<unknown>): Promise<LambdaApi> {
  const invocations: LambdaApi['invocations'] = [];
  const running = new Set<Promise<unknown>>();
  const server = createServer(async (request, response) => {
    const name = decodeURIComponent(
      /^\/2015-03-31\/functions\/([^/]+)\/invocations/.exec(request.url ?? '')?.[1] ?? '',
    );
    const event = await json(request);
    invocations.push({ name, event });
    response.writeHead(request.headers['x-amz-invocation-type'] === 'Event' ? 202 : 400).end();
    const work = handler(event).catch(() => undefined);
    running.add(work);
    void work.finally(() => running.delete(work));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const stop = async (): Promise<void> => {
    await Promise.all(running);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, invocations, stop };
}
