/** One JSON Pointer out of a document of 100 MB: by scanning its bytes, against decoding and parsing all of it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseJson, resolvePointer } from '../lib/json.ts';
import { createJsonScanner } from '../lib/json-scan.ts';
import { compare, type Measured, time } from './measure.ts';

const SIZE_BYTES = 100_000_000;
const CHUNK_BYTES = 256 * 1024;
const POINTER = '/result/text';
const ALLOWED_BYTES = 32_000_000;

export async function measure(): Promise<readonly Measured[]> {
  const rows: Measured[] = [];
  for (const [what, unit] of Object.entries(ITEMS)) {
    const document = documentOf(unit);
    const contest = {
      goal: 0.5,
      ours: () => time(() => scan(document)),
      floor: () => time(() => parse(document)),
    };
    rows.push(await compare({ what: `100 MB of ${what}`, rounds: 5, ...contest }));
  }
  return [...rows, memoryOf(documentOf(ITEMS.records))];
}

const ITEMS = {
  records: (i: number) =>
    `{"id":${i},"name":"user ${i}","score":${(i * 7919) % 977}.25,"tags":["a","bb"],"active":true,"note":"the quick\\nbrown fox"}`,
  'indented records': (i: number) =>
    JSON.stringify({ id: i, name: `user ${i}`, tags: ['a', 'bb'], at: null }, null, 2),
  numbers: (i: number) => `${-Math.sin(i) * 180}`,
  text: (i: number) => `"${i} ${'lorem ipsum dolor sit amet '.repeat(400)}"`,
} satisfies Record<string, (i: number) => string>;

function documentOf(item: (i: number) => string): Buffer {
  const parts: string[] = [];
  for (let size = 0, i = 0; size < SIZE_BYTES; size += parts.at(-1)!.length, i++) parts.push(`${item(i)},`);
  return Buffer.from(`{"items":[${parts.join('')}0],"result":{"text":"found"}}`);
}

function scan(document: Buffer): void {
  const scanner = createJsonScanner([POINTER]);
  for (let at = 0; at < document.length; at += CHUNK_BYTES)
    scanner.push(document.subarray(at, at + CHUNK_BYTES));
  const answer = scanner.end();
  const range = answer.ok ? answer.find(POINTER) : undefined;
  check(range && parseJson(document.toString('utf8', range.start, range.end)));
}

function parse(document: Buffer): void {
  check(resolvePointer(JSON.parse(new TextDecoder().decode(document)), POINTER));
}

function check(value: unknown): void {
  if (value !== 'found') throw new Error(`the pointer finds ${value}`);
}

/** Peak memory over idle of a process that scans the file, in parts of what is allowed. */
function memoryOf(document: Buffer): Measured {
  const dir = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
  try {
    const path = join(dir, 'document.json');
    writeFileSync(path, document);
    const printed = execFileSync(process.execPath, ['--input-type=module', '-e', SCANNING_PROCESS, path]);
    const bytes = Number(printed.toString());
    const detail = `${(bytes / 1e6).toFixed(1)} MB over idle`;
    return { what: 'memory for 100 MB of records, of 32 MB', ratio: bytes / ALLOWED_BYTES, goal: 1, detail };
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

const SCANNING_PROCESS = `
import { readFileSync } from 'node:fs';
import { createJsonScanner } from ${JSON.stringify(new URL('../lib/json-scan.ts', import.meta.url).href)};
import { chunksOf } from ${JSON.stringify(new URL('../lib/worker/file-range.ts', import.meta.url).href)};
const kilobytes = (name) => Number(new RegExp(name + ':\\\\s*(\\\\d+)').exec(readFileSync('/proc/self/status', 'utf8'))[1]);
const idle = kilobytes('VmRSS');
const scanner = createJsonScanner(['${POINTER}']);
for await (const chunk of chunksOf(process.argv[1], { start: 0, end: ${SIZE_BYTES} })) scanner.push(chunk);
console.log((kilobytes('VmHWM') - idle) * 1024);
`;
