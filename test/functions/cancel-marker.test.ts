/** The mark of a stopped execution. */
import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { handler } from '../../functions/cancel-marker.ts';
import { openStore } from '../../lib/store/open.ts';
import { temporaryFolder } from '../support/ports.ts';

const url = pathToFileURL(mkdtempSync(join(temporaryFolder(), 'store-'))).href;
process.env.STORE_URL = url;
const context = {
  awsRequestId: 'r',
  functionName: 'f',
  invokedFunctionArn: 'a',
  memoryLimitInMB: '512',
} as never;
const stopped = (name: string) => ({
  source: 'aws.states',
  'detail-type': 'Step Functions Execution Status Change',
  detail: { name, status: 'ABORTED' },
});

test('marks the run of the execution as cancelled, once and again', async () => {
  for (const name of ['R-1.a-12', 'R-1.a-13'])
    expect(await handler(stopped(name), context)).toEqual({ run_id: 'R-1.a' });
  const marker = await openStore(url).read('runs/R-1.a/cancel.json');
  expect(JSON.parse(String(marker?.body))).toEqual({ requested_at: expect.stringMatching(/^\d{4}-.*Z$/) });
});

test.each(['R', 'R-0', '-1', '../x-1', 'a/b-1', ''])("an execution named '%s' is refused", async (name) => {
  await expect(handler(stopped(name), context)).rejects.toMatchObject({ name: 'InvalidTask' });
});
