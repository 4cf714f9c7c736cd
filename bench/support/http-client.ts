/** Requests to a server that runs programs, one at a time or as a steady load. */
import { Agent, request } from 'node:http';

export interface Reply {
  readonly status: number;
  readonly text: string;
}

export interface Post {
  readonly url: string;
  readonly body: string;
  /** connections to use again @default a new one */
  readonly agent?: Agent;
  /** milliseconds after which the caller hangs up @default never */
  readonly leaves_after?: number;
}

/** Sends a POST; null when the connection ended before the answer did. */
export function post({ url, body, agent, leaves_after }: Post): Promise<Reply | null> {
  return new Promise((resolve) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { method: 'POST', headers, agent: agent ?? false });
    if (leaves_after !== undefined) setTimeout(() => sent.destroy(), leaves_after).unref();
    sent.once('error', () => resolve(null));
    sent.once('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', () => resolve(null));
      response.once('close', () =>
        resolve(
          response.complete
            ? { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString() }
            : null,
        ),
      );
    });
    sent.end(body);
  });
}

export interface Load {
  readonly per_second: number;
  /** milliseconds */
  readonly p50: number;
  readonly p99: number;
}

/** `concurrency` callers that ask again and again for `ms`; `ask` throws when an answer is wrong. */
export async function loadOf(
  ask: (agent: Agent) => Promise<void>,
  { concurrency, ms }: { readonly concurrency: number; readonly ms: number },
): Promise<Load> {
  const agent = new Agent({ keepAlive: true, maxSockets: concurrency });
  const took: number[] = [];
  const begun = performance.now();
  const caller = async (): Promise<void> => {
    for (let at = performance.now(); at - begun < ms; ) {
      await ask(agent);
      const now = performance.now();
      took.push(now - at);
      at = now;
    }
  };
  await Promise.all(Array.from({ length: concurrency }, caller));
  const seconds = (performance.now() - begun) / 1000;
  agent.destroy();
  took.sort((a, b) => a - b);
  const quantile = (q: number): number => took[Math.min(took.length - 1, Math.floor(took.length * q))] ?? 0;
  return { per_second: took.length / seconds, p50: quantile(0.5), p99: quantile(0.99) };
}
