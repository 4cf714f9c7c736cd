/** Server-sent events, written so that a reader meets characters that are split between two packets. */
import type { ServerResponse } from 'node:http';

export interface EventStream {
  readonly event: (name: string, data: object) => void;
  readonly data: (text: string) => void;
}

export function openEventStream(response: ServerResponse): EventStream {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const write = (text: string): void => {
    const bytes = Buffer.from(text);
    const split = bytes.findIndex((byte) => byte > 0x7f) + 1;
    if (split > 0) response.write(bytes.subarray(0, split));
    response.write(bytes.subarray(split));
  };
  return {
    event: (name, data) => write(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`),
    data: (text) => write(`data: ${text}\n\n`),
  };
}
