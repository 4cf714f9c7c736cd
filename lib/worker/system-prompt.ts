/**
 * Renders system prompts as MiniJinja templates. The engine runs in one worker thread, started when first needed,
 * with a ceiling for time, steps, memory and output, and is replaced when a template breaks it.
 */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { isObject, isRaw, type JsonObject, type JsonValue, setMember } from '../json.ts';
import type { EngineAnswer, EngineFault, EngineRequest } from './system-prompt-engine.ts';

export type RenderedPrompt =
  | { readonly ok: true; readonly text: string }
  | { readonly ok: false; readonly code: EngineFault; readonly message: string };

const TIME_LIMIT_MS = 1000;
const START_LIMIT_MS = 30_000;
const MAX_CONTEXT_DEPTH = 500;
/** Of the prompt, and of the input that it names. */
const MAX_CHARACTERS = 8 * 1024 * 1024;
/** What a scalar, and a list or object besides its items, counts for. */
const SCALAR_CHARACTERS = 8;
const CONTAINER_CHARACTERS = 64;

const TOO_LARGE = `the template is larger than ${MAX_CHARACTERS} characters`;

/** Whether the text holds `{{`, `{%` or `{#`; without them it is not a template. */
export function hasTemplateSyntax(text: string): boolean {
  return /\{[{%#]/.test(text);
}

/**
 * The system prompt for a directive. An object's own keys are the variables, any other value is the variable
 * `directive`. One trailing newline is dropped. A template that fails or exceeds a limit is an answer, not thrown.
 */
export async function renderSystemPrompt(prompt: string, directive: JsonValue): Promise<RenderedPrompt> {
  if (!hasTemplateSyntax(prompt)) return { ok: true, text: prompt.replace(/\r?\n$/, '') };
  if (prompt.length > MAX_CHARACTERS) return { ok: false, code: 'template_limit', message: TOO_LARGE };
  const slots = isObject(directive) ? directive : { directive };
  const context = namedSlots(prompt, slots);
  const excess = excessOf(context, MAX_CONTEXT_DEPTH, { left: MAX_CHARACTERS });
  if (excess !== null) {
    return { ok: false, code: 'template_limit', message: `the input that the prompt names is ${excess}` };
  }
  const { text, fault } = await inTurn({ prompt, context: JSON.stringify(context) });
  if (fault === null) return { ok: true, text };
  const hint = fault.code === 'undefined_variable' ? `; ${available(slots)}` : '';
  return { ok: false, code: fault.code, message: `${fault.message}${hint}` };
}

/** Checks the syntax of each prompt: null, or what is wrong with it. */
export async function checkSystemPrompts(prompts: readonly string[]): Promise<(string | null)[]> {
  const found = new Map<string, string | null>();
  for (const prompt of prompts) {
    if (found.has(prompt)) continue;
    found.set(prompt, await checkSystemPrompt(prompt));
  }
  return prompts.map((prompt) => found.get(prompt) ?? null);
}

async function checkSystemPrompt(prompt: string): Promise<string | null> {
  if (!hasTemplateSyntax(prompt)) return null;
  if (prompt.length > MAX_CHARACTERS) return TOO_LARGE;
  const { fault } = await inTurn({ prompt, context: null });
  return fault === null ? null : fault.message;
}

/** The slots that the prompt can name; the engine is not fed what cannot be read. */
function namedSlots(prompt: string, slots: JsonObject): JsonObject {
  const words = new Set<string>();
  for (const [word] of prompt.matchAll(/[A-Za-z_][A-Za-z0-9_]*/g)) words.add(word);
  const named: JsonObject = {};
  for (const [key, value] of Object.entries(slots)) if (words.has(key)) setMember(named, key, value);
  return named;
}

/** What keeps a value from the engine: too many levels, or too much of it; `room` counts down. */
function excessOf(value: JsonValue, levels: number, room: { left: number }): string | null {
  const scalar = typeof value !== 'object' || value === null || isRaw(value);
  const own = typeof value === 'string' ? value.length : scalar ? SCALAR_CHARACTERS : CONTAINER_CHARACTERS;
  room.left -= own;
  if (room.left < 0) return `larger than ${MAX_CHARACTERS} characters`;
  if (scalar) return null;
  if (levels === 0) return `nested deeper than ${MAX_CONTEXT_DEPTH} levels`;
  if (Array.isArray(value)) return firstExcess(value, (item) => excessOf(item, levels - 1, room));
  return firstExcess(Object.keys(value), (key) => {
    room.left -= key.length;
    return excessOf(value[key] ?? null, levels - 1, room);
  });
}

function firstExcess<T>(items: readonly T[], of: (item: T) => string | null): string | null {
  for (const item of items) {
    const excess = of(item);
    if (excess !== null) return excess;
  }
  return null;
}

function available(slots: JsonObject): string {
  const keys = Object.keys(slots);
  const shown = keys.slice(0, 10).map((key) => key.slice(0, 40));
  const list = keys.length === 0 ? 'none' : `${shown.join(', ')}${keys.length > 10 ? ', …' : ''}`;
  return `the input's variables: ${list}; guard what may be absent with \`is defined\` or \`default(…)\``;
}

let engine: Worker | null = null;
let last: Promise<unknown> = Promise.resolve();

/** One call at a time, so that stopping a template that takes too long never hits another's. */
function inTurn(request: EngineRequest): Promise<EngineAnswer> {
  const turn = last.then(() => ask(request));
  last = turn.catch(() => undefined);
  return turn;
}

async function ask(request: EngineRequest): Promise<EngineAnswer> {
  const worker = engine ?? (await startEngine());
  engine = worker;
  worker.ref();
  worker.postMessage(request);
  const answer = await nextMessage<EngineAnswer>(worker, TIME_LIMIT_MS).catch((error: Error) =>
    limit(`the template engine died: ${error.message}`),
  );
  if (answer !== undefined && !answer.spent) {
    worker.unref();
    return answer;
  }
  engine = null;
  await worker.terminate();
  return answer ?? limit(`the template takes longer than ${TIME_LIMIT_MS / 1000} s`);
}

function limit(message: string): EngineAnswer {
  return { text: '', fault: { code: 'template_limit', message }, spent: true };
}

/** The engine's file is of the same kind as this one: source, or beside it in a bundle. */
async function startEngine(): Promise<Worker> {
  const file = new URL(`./system-prompt-engine${extname(import.meta.url)}`, import.meta.url);
  const worker = new Worker(file, { env: {}, execArgv: [], resourceLimits: { maxOldGenerationSizeMb: 128 } });
  if ((await nextMessage(worker, START_LIMIT_MS)) === undefined) {
    await worker.terminate();
    throw new Error(`the template engine did not start within ${START_LIMIT_MS / 1000} s`);
  }
  worker.on('error', () => {});
  worker.on('exit', () => {
    if (engine === worker) engine = null;
  });
  return worker;
}

/** The worker's next message; undefined when none arrives in time. Rejects when the worker dies. */
function nextMessage<T>(worker: Worker, limitMs: number): Promise<T | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<T | undefined>();
  // a message that came while this thread was busy is delivered before the immediate
  const timer = setTimeout(() => setImmediate(resolve, undefined), limitMs);
  const ended = (code: number) => reject(new Error(`ended with code ${code}`));
  worker.on('message', resolve).on('error', reject).on('exit', ended);
  return promise.finally(() => {
    clearTimeout(timer);
    worker.off('message', resolve).off('error', reject).off('exit', ended);
  });
}
