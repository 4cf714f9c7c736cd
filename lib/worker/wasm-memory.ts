/** Gives a WebAssembly module a ceiling for its memory, so that growing beyond it fails instead of filling the host. */

const MEMORY_SECTION = 5;
const HEADER_BYTES = 8;
const HAS_MAXIMUM = 1;

/**
 * The module with its one memory declared with a maximum of `maxPages` (64 KiB each). Throws when the module
 * declares no memory of its own or starts out larger.
 */
export function limitWasmMemory(module: Uint8Array, maxPages: number): Uint8Array<ArrayBuffer> {
  let at = HEADER_BYTES;
  while (at < module.length) {
    const start = at;
    const id = module[at];
    const size = readLeb(module, at + 1);
    const body = size.next;
    at = body + size.value;
    if (id !== MEMORY_SECTION) continue;
    const count = readLeb(module, body);
    const minimum = readLeb(module, count.next + 1);
    if (count.value !== 1 || minimum.value > maxPages) {
      throw new Error(`cannot limit the wasm memory to ${maxPages} pages: it starts with ${minimum.value}`);
    }
    const limits = [1, HAS_MAXIMUM, ...writeLeb(minimum.value), ...writeLeb(maxPages)];
    const section = [MEMORY_SECTION, ...writeLeb(limits.length), ...limits];
    return join([module.subarray(0, start), Uint8Array.from(section), module.subarray(at)]);
  }
  throw new Error('cannot limit the wasm memory: the module declares none');
}

function readLeb(bytes: Uint8Array, start: number): { value: number; next: number } {
  let value = 0;
  let at = start;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return { value, next: at };
  }
}

function writeLeb(value: number): number[] {
  const low = value % 128;
  return value < 128 ? [low] : [low | 0x80, ...writeLeb((value - low) / 128)];
}

function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
