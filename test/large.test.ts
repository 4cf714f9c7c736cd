/** Outputs larger than memory should be: real children, a real store, the attempt in a process of its own. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import type { JsonObject } from '../lib/json.ts';
import type { TaskResult } from '../lib/task.ts';
import { temporaryFolder } from './support/ports.ts';

const folder = temporaryFolder();
const GIB = 1024 ** 3;
const MB = 1_000_000;
const ALLOWED_BYTES = 150 * MB;

let dir = '';
afterEach(() => rmSync(dir, { recursive: true, force: true }));

async function attempt(template: JsonObject): Promise<{ result: TaskResult; extra_bytes: number }> {
  dir = mkdtempSync(join(folder, 'large-'));
  const script = join(import.meta.dirname, 'support', 'measured-attempt.ts');
  const args = [script, join(dir, 'store'), dir, 'T-1', JSON.stringify(template)];
  const { stdout } = await promisify(execFile)(process.execPath, args, { maxBuffer: MB });
  return JSON.parse(stdout);
}

async function digestOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) hash.update(chunk);
  return hash.digest('hex');
}

async function* repeated(before: string, unit: string, times: number, after: string): AsyncGenerator<Buffer> {
  yield Buffer.from(before);
  const block = Buffer.from(unit.repeat(1024));
  for (let left = times; left > 0; left -= 1024) yield block.subarray(0, Math.min(1024, left) * unit.length);
  yield Buffer.from(after);
}

const stored = (key: string | undefined | null) => join(dir, 'store', key ?? 'no key');

test('1 GiB of text on stdout is stored whole, as the value and as the stream, in little memory', async () => {
  const unit = 'x'.repeat(1024);
  const { result, extra_bytes } = await attempt({
    argv: ['sh', '-c', `head -c ${GIB} /dev/zero | tr '\\0' x`],
  });
  expect(result).toMatchObject({ ok: true, status: 'passed', stdout: { size_bytes: GIB } });
  expect(result).not.toHaveProperty('value');
  expect(extra_bytes).toBeLessThan(ALLOWED_BYTES);
  const value = await digestOf(repeated('{"raw":"', unit, GIB / 1024, '","stderr":""}'));
  expect(result.value_ref).toEqual({
    key: 'tasks/T-1/1/value.json',
    size_bytes: GIB + '{"raw":"","stderr":""}'.length,
    sha256: value,
  });
  expect(result.preview).toBe(`{"raw":"${'x'.repeat(1024 - '{"raw":"'.length)}`);
  expect(statSync(stored(result.value_ref?.key)).size).toBe(result.value_ref?.size_bytes);
  expect(await digestOf(createReadStream(stored(result.value_ref?.key)))).toBe(value);
  expect(await digestOf(createReadStream(stored(result.stdout.key)))).toBe(
    await digestOf(repeated('', unit, GIB / 1024, '')),
  );
}, 120_000);

test('an artifact of 512 MiB is stored whole, in little memory', async () => {
  const size = GIB / 2;
  const { result, extra_bytes } = await attempt({
    argv: ['sh', '-c', `head -c ${size} /dev/zero | tr '\\0' x > big.bin`],
    artifacts: [{ glob: '*.bin', required: true }],
    limits: { artifact_bytes: size },
  });
  const sha256 = await digestOf(repeated('', 'x'.repeat(1024), size / 1024, ''));
  expect(result).toMatchObject({ ok: true, artifacts: [{ name: 'big.bin', size_bytes: size, sha256 }] });
  expect(extra_bytes).toBeLessThan(ALLOWED_BYTES);
  expect(await digestOf(createReadStream(stored(result.artifacts?.[0]?.key)))).toBe(sha256);
}, 120_000);

test('a value of 100 MB out of a larger document is stored whole and referenced, in little memory', async () => {
  const item = '{"id":1.0,"text":"caf\\u00e9"},'.repeat(100);
  const count = Math.ceil((100 * MB) / item.length);
  const program = `process.stdout.write('{"ok":true,"r":[');const s=${JSON.stringify(item)};
    let i=0;const go=()=>{while(i++<${count})if(!process.stdout.write(s))return process.stdout.once('drain',go);
    process.stdout.write('0]}')};go()`;
  const { result, extra_bytes } = await attempt({
    argv: [process.execPath, '-e', program],
    output: { format: 'json', result_ptr: '/r', ok_from: '/ok' },
  });
  expect(result).toMatchObject({ ok: true, status: 'passed', reason: null });
  expect(extra_bytes).toBeLessThan(ALLOWED_BYTES);
  const size_bytes = 1 + item.length * count + 2;
  const sha256 = await digestOf(repeated('[', item, count, '0]'));
  expect(result.value_ref).toEqual({ key: 'tasks/T-1/1/value.json', size_bytes, sha256 });
  expect(await digestOf(createReadStream(stored(result.value_ref?.key)))).toBe(sha256);
}, 60_000);
