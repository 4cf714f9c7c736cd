import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cli } from './support/cli.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const examples = join(import.meta.dirname, '..', 'examples');

test.each([
  [
    '11-subprocess-embed.json',
    {
      task: 'summarize the change in one line',
      summary: {
        prompt_seen: 'summarize the change in one line',
        system_seen: 'You are a headless one-line summarizer.',
      },
      characters: 32,
    },
  ],
  ['12-jq-step.yaml', { orders: expect.any(Array), open: ['A-1', 'A-3'] }],
  ['13-fanout-aggregate.json', { words: ['one', 'three', 'fifteen'], lanes: expect.any(Array), total: 15 }],
  ['14-retry-loop.json', { draft: { good: true }, tries: 3, last_error: expect.stringContaining('no luck') }],
  ['15-event-stream.json', { parts: [1, 2, 3] }],
  [
    '16-json-lines.json',
    { task: 'what is the answer?', answer: 'forty-two' },
    { usage: { input_tokens: 19, output_tokens: 2, total_tokens: 21 } },
  ],
  ['17-files-and-artifacts.json', { report: 'written for the night shift' }],
])('examples/%s runs', async (file, ctx, totals?: object) => {
  const { code, stdout, stderr } = await cli(['run', join(examples, file)], mkdtempSync(join(folder, 'x-')));
  expect([code, stderr]).toEqual([0, expect.any(String)]);
  expect(JSON.parse(stdout)).toEqual({ run_id: expect.any(String), status: 'done', ctx, totals });
});

test('the fixtures beside an example pass', async () => {
  const { code, stdout } = await cli(['test', join(examples, '16-json-lines.json')], folder);
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { ok: true, passed: 5, failed: 0 }]);
});
