/**
 * The worker thread that runs the template engine: one request at a time, each answered by one message. After an
 * answer with `spent` it must not be used again: a trap ruins the whole wasm instance.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { parentPort } from 'node:worker_threads';
import { Environment, initSync } from 'minijinja-js/dist/web/minijinja_js.js';
import { head } from './text.ts';
import { limitWasmMemory } from './wasm-memory.ts';

/** Without `context` only the syntax is checked. */
export interface EngineRequest {
  readonly prompt: string;
  /** JSON text of the object whose keys are the variables */
  readonly context: string | null;
}
export type EngineFault = 'syntax_error' | 'undefined_variable' | 'template_limit' | 'template_error';
export interface EngineAnswer {
  readonly text: string;
  readonly fault: { readonly code: EngineFault; readonly message: string } | null;
  readonly spent: boolean;
}

const PAGE_BYTES = 64 * 1024;
const MIB = 1024 * 1024;
const MEMORY_BYTES = 64 * MIB;
/** Memory never shrinks; an instance that grew beyond this is given up after its answer. */
const KEPT_MEMORY_BYTES = 16 * MIB;
const MAX_OUTPUT_BYTES = 4 * MIB;
/** Steps of the engine, about one per operation of the template. */
const FUEL = 1_000_000;
/** Context up to which an undefined value is looked up again for its name; the engine prints the context then. */
const EXPLAINED_CONTEXT = 256 * 1024;

let panic = '';
let broken = false;
console.error = (...words: unknown[]) => {
  panic = words.join(' ');
};

const { memory } = initSync({
  module: limitWasmMemory(readFileSync(wasmFile()), MEMORY_BYTES / PAGE_BYTES),
});

parentPort?.on('message', (request: EngineRequest) => parentPort?.postMessage(answer(request)));
parentPort?.postMessage('ready');

/** Beside this file in a bundle, else in the package. */
function wasmFile(): string {
  const beside = fileURLToPath(new URL('./minijinja_js_bg.wasm', import.meta.url));
  if (existsSync(beside)) return beside;
  return createRequire(import.meta.url).resolve('minijinja-js/dist/web/minijinja_js_bg.wasm');
}

function answer({ prompt, context }: EngineRequest): EngineAnswer {
  panic = '';
  try {
    const evaluated = evaluate(prompt, context);
    return { ...evaluated, spent: broken || memory.buffer.byteLength > KEPT_MEMORY_BYTES };
  } catch (error) {
    const fault = { code: 'template_limit' as const, message: crashMessage(error) };
    return { text: '', fault, spent: true };
  }
}

function evaluate(prompt: string, context: string | null): Omit<EngineAnswer, 'spent'> {
  const parsed = run((engine) => {
    engine.addTemplate('prompt', prompt);
    return '';
  });
  if (typeof parsed !== 'string') return failed('syntax_error', parsed.message);
  if (context === null) return { text: '', fault: null };

  const variables = readContext(context);
  const rendered = run((engine) => engine.renderStr(prompt, variables));
  if (typeof rendered === 'string') {
    if (Buffer.byteLength(rendered) <= MAX_OUTPUT_BYTES) return { text: rendered, fault: null };
    return failed('template_limit', `the rendered prompt is larger than ${MAX_OUTPUT_BYTES} bytes`);
  }
  if (rendered.message.startsWith('engine ran out of fuel')) {
    return failed('template_limit', `it takes more than ${FUEL} steps; ${rendered.message}`);
  }
  if (!rendered.message.startsWith('undefined value')) return failed('template_error', rendered.message);
  const explain = context.length <= EXPLAINED_CONTEXT;
  return failed(
    'undefined_variable',
    explain ? explanation(prompt, variables, rendered.message) : rendered.message,
  );
}

/** The message again with an excerpt, for which the engine renders once more and prints the variables. */
function explanation(prompt: string, variables: unknown, message: string): string {
  try {
    const explained = run((engine) => {
      engine.debug = true;
      return engine.renderStr(prompt, variables);
    });
    return typeof explained === 'string' ? message : explained.message;
  } catch {
    broken = true;
    return message;
  }
}

/** What the engine says, or its refusal; a trap is thrown. */
function run(use: (engine: Environment) => string): string | { message: string } {
  const engine = new Environment();
  engine.undefinedBehavior = 'strict';
  engine.fuel = FUEL;
  try {
    const text = use(engine);
    engine.free();
    return text;
  } catch (error) {
    if (!(error instanceof Error) || error.constructor !== Error || panic !== '') throw error;
    engine.free();
    return { message: error.message };
  }
}

function failed(code: EngineFault, said: string): Omit<EngineAnswer, 'spent'> {
  return { text: '', fault: { code, message: readable(code, said) } };
}

/** The engine's report, a line of words and then an excerpt with carets, in one line: what, where, on which text. */
function readable(code: EngineFault, said: string): string {
  const [first = '', ...excerpt] = said.split('\n');
  const what = first.replace(/ \(in [^()]*:\d+\)$/, '');
  const line = / \(in [^()]*:(\d+)\)$/.exec(first)?.[1];
  const pointed = excerpt.findIndex((row) => /^ *i +\^/.test(row));
  const carets = excerpt[pointed] ?? '';
  const source = excerpt[pointed - 1] ?? '';
  const spot = [...source].slice(carets.indexOf('^'), carets.lastIndexOf('^') + 1).join('');
  const kind = code === 'syntax_error' && !what.startsWith('syntax error') ? 'syntax error: ' : '';
  const at = spot === '' ? '' : `${code === 'undefined_variable' ? '' : ' at'} \`${head(spot, 80)}\``;
  return `${kind}${what}${at}${line === undefined ? '' : ` in line ${line}`}`;
}

/** A trap has few words: running out of memory is a bare `unreachable`, and so may a panic be. */
function crashMessage(error: unknown): string {
  const said = error instanceof Error ? error.message : String(error);
  if (/call stack|out of bounds/.test(said)) return 'the template or a value in it is nested too deep';
  if (panic === '' || /capacity overflow|alloc/.test(panic)) {
    return `the template broke the engine, most likely by needing more than ${MEMORY_BYTES / MIB} MiB of memory`;
  }
  return `the template broke the engine: ${head(panic.replaceAll('\n', ' '), 200)}`;
}

/** Integers that a double would change become BigInt, whose digits the engine keeps (up to 64 bits). */
function readContext(text: string): unknown {
  return /\d{16}/.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text);
}

function keepDigits(_key: string, value: unknown, from?: { source?: string }): unknown {
  const source = from?.source ?? '';
  if (typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(source)) return value;
  const digits = BigInt(source);
  return digits >= -(2n ** 63n) && digits < 2n ** 64n ? digits : value;
}
