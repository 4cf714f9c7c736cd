import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { answerWithin } from '../lib/answer.ts';
import { sha256 } from '../lib/json.ts';
import { INLINE_VALUE_BYTES, PREVIEW_CHARS } from '../lib/limits.ts';
import { openValue, storeValue } from '../lib/settle.ts';
import { folderStore } from '../lib/store/folder.ts';
import type { TaskResult } from '../lib/task.ts';
import { sampleResult } from './store/contract.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const id = { task_id: 'T-1', attempt: 1 };
const fresh = () => folderStore(mkdtempSync(join(folder, 'store-')));

function contentOf(value: string, onRead: () => void = () => undefined) {
  return async function* (): AsyncGenerator<Uint8Array> {
    onRead();
    const bytes = Buffer.from(value);
    for (let at = 0; at < bytes.length; at += 1000) yield bytes.subarray(at, at + 1000);
  };
}

test('streamed content is stored in one pass, with size, digest and a preview of whole characters', async () => {
  const store = fresh();
  const json = `"${'a'.repeat(PREVIEW_CHARS - 2)}${'😀'.repeat(5000)}"`;
  let reads = 0;
  const told = await storeValue(store, id, { content: contentOf(json, () => reads++) });
  expect(told).toEqual({
    value_ref: { key: 'tasks/T-1/1/value.json', size_bytes: Buffer.byteLength(json), sha256: sha256(json) },
    preview: json.slice(0, PREVIEW_CHARS - 1),
  });
  expect(reads).toBe(1);
  expect(await text(await openValue(store, told as TaskResult))).toBe(json);
});

test('content that has to be sent again is measured whole', async () => {
  const store = fresh();
  const json = `[${'1,'.repeat(5000)}1]`;
  const twice: typeof store = {
    ...store,
    upload: async (key, content) => {
      for await (const _ of content()) break;
      await store.upload(key, content);
    },
  };
  const { value_ref } = await storeValue(twice, id, { content: contentOf(json) });
  expect(value_ref).toMatchObject({ size_bytes: json.length, sha256: sha256(json) });
});

test('an answer that is too large even without its value refers to its artifacts', async () => {
  const store = fresh();
  const one = { key: 'k', size_bytes: 1, sha256: 'f'.repeat(64), media_type: 'text/plain' };
  const artifacts = Array.from({ length: 100 }, (_, i) => ({ name: `a${i}`, ...one }));
  const result = { ...sampleResult('T-1', 'v'.repeat(3000)), artifacts };
  const size = (limit: number) => answerWithin(store, result, limit, Buffer.byteLength);
  expect(await size(100_000)).toEqual(result);
  expect(await size(17_000)).toMatchObject({ artifacts, value_ref: { size_bytes: 3002 } });
  const { artifacts_ref, ...small } = await size(2000);
  expect(small).not.toHaveProperty('artifacts');
  expect(artifacts_ref).toMatchObject({ key: 'tasks/T-1/1/artifacts.json' });
  expect(JSON.parse(String((await store.read(artifacts_ref?.key ?? ''))?.body))).toEqual(artifacts);
});

test('a value is opened as JSON text wherever it lies', async () => {
  const store = fresh();
  const small = await storeValue(store, id, { value: { a: 'é' } });
  expect(small).toEqual({ value: { a: 'é' } });
  expect(await text(await openValue(store, small as TaskResult))).toBe('{"a":"é"}');
  const large = await storeValue(store, id, { value: 'x'.repeat(INLINE_VALUE_BYTES) });
  expect(await text(await openValue(store, large as TaskResult))).toBe(`"${'x'.repeat(INLINE_VALUE_BYTES)}"`);
  await expect(openValue(fresh(), large as TaskResult)).rejects.toMatchObject({ code: 'StoreUnavailable' });
});
