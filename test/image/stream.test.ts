import { expect, test } from 'vitest';
import type { JsonObject } from '../../lib/json.ts';
import { shell, taskOf } from '../support/attempts.ts';
import { parsed, spawnImage } from '../support/spawn-image.ts';

const { make, stored } = spawnImage();

test('under the real client an attempt is streamed: metadata, what goes on, and the result that lies in the store', async () => {
  const lambda = make({ handler: 'index.stream' });
  const task = taskOf(shell('echo one; sleep 0.3; echo two'), { task_id: 'streamed' });
  const { payload } = await lambda.invoke({
    httpMethod: 'POST',
    path: '/v1/spawn/stream',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(task),
    isBase64Encoded: false,
    requestContext: { requestId: 'rest-1' },
  });
  const [metadata = '', events = ''] = String(payload).split('\0'.repeat(8));
  expect(JSON.parse(metadata)).toEqual({
    statusCode: 200,
    headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
  });
  const told = events
    .split('\n\n')
    .map((block) => /^event: (.*)\ndata: (.*)$/.exec(block))
    .flatMap((found) => (found ? [[found[1], JSON.parse(found[2] ?? '') as JsonObject] as const] : []));
  expect(told[0]).toEqual([
    'accepted',
    { task_id: 'streamed', attempt: 1, location: '/v1/tasks/streamed/1' },
  ]);
  const output = told.filter(([name]) => name === 'output').map(([, { text }]) => text);
  expect(output.join('')).toBe('one\ntwo\n');
  expect(told.at(-1)).toEqual(['result', parsed(await stored('streamed'))]);
});

test('what is wrong with a request is answered with its own status, not as a stream of events', async () => {
  const lambda = make({ handler: 'index.stream' });
  const { payload } = await lambda.invoke({
    httpMethod: 'POST',
    path: '/v1/spawn/stream',
    headers: { 'content-type': 'text/plain' },
    body: 'x',
    isBase64Encoded: false,
    requestContext: { requestId: 'rest-1' },
  });
  const [metadata = '', body = ''] = String(payload).split('\0'.repeat(8));
  expect(JSON.parse(metadata)).toMatchObject({ statusCode: 415 });
  expect(JSON.parse(body)).toMatchObject({ error: { code: 'UnsupportedMediaType', request_id: 'rest-1' } });
});
