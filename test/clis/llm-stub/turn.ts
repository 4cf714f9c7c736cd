/** What one call to a model API asks for, and what the stub says to it, whatever the protocol. */
import * as z from 'zod';

/** How the stub behaves: an answer, a shell call before it, an HTTP status, or a fault. `cut_once` cuts the first only. */
export type Mode = 'answer' | 'tool' | 'empty' | 'cut' | 'cut_once' | 'hang' | 401 | 404 | 429 | 500 | 529;

export interface Tool {
  readonly name: string;
  readonly schema: JsonSchema;
}

/** A call as it reached the stub; `users` holds what users said, without results of tools. */
export interface Call {
  readonly model: string;
  readonly stream: boolean;
  readonly system: string;
  readonly users: readonly string[];
  readonly tools: readonly Tool[];
  readonly has_tool_result: boolean;
}

export interface ToolCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** What is said to a call: a text, a tool call, or both; `cut` drops the connection in the middle of the text. */
export interface Reply {
  readonly text: string;
  readonly tool?: ToolCall;
  readonly cut: boolean;
}

/** Characters of one to four bytes and such as templates, shells and JSON care about. */
export const ANSWER = 'the answer: "é漢😀" `$&` {model} \\ end';

/** Tokens of every call. */
export const TOKENS = { input: 101, output: 23, cached: 7 } as const;

export const SHELL_COMMAND = 'pwd > tool-ran.txt';

export const JsonSchema = z
  .looseObject({
    properties: z
      .record(z.string(), z.looseObject({ type: z.unknown(), enum: z.array(z.unknown()).optional() }))
      .default({}),
    required: z.array(z.string()).default([]),
  })
  .catch({ properties: {}, required: [] });
export type JsonSchema = z.infer<typeof JsonSchema>;

/** A text, or parts of which some have one. */
export const Content = z
  .union([
    z.string(),
    z.array(z.looseObject({ type: z.string().optional(), text: z.string().optional() })),
    z.null(),
  ])
  .optional()
  .transform((content) => {
    if (typeof content === 'string') return content;
    return (content ?? []).flatMap(({ text }) => (text === undefined ? [] : [text])).join('\n');
  });

/** What the stub says to the `count`-th call. */
export function replyTo(call: Call, mode: Mode, count: number): Reply {
  const tool = mode === 'tool' && !call.has_tool_result ? shellCall(call.tools) : undefined;
  if (tool) return { text: '', tool, cut: false };
  return {
    text: mode === 'empty' ? '' : ANSWER,
    cut: mode === 'cut' || (mode === 'cut_once' && count === 1),
  };
}

/** The text in pieces of a few characters; those before the cut when there is one. */
export function pieces({ text, cut }: Reply): string[] {
  const characters = [...text];
  const all: string[] = [];
  for (let i = 0; i < characters.length; i += 16) all.push(characters.slice(i, i + 16).join(''));
  return cut ? all.slice(0, Math.ceil(all.length / 2)) : all.length > 0 ? all : [''];
}

const SHELLS = /^(bash|shell|run_shell_command|exec_command|execute_command|run_commands|exec)$/i;

/** A call of the shell among the tools, with arguments that its own schema asks for. */
function shellCall(tools: readonly Tool[]): ToolCall | undefined {
  const tool = tools.find(({ name }) => SHELLS.test(name));
  if (!tool) return undefined;
  const { properties, required } = tool.schema;
  const args: Record<string, unknown> = {};
  for (const [name, { type, enum: values }] of Object.entries(properties)) {
    if (/^(command|cmd)$/.test(name))
      args[name] = type === 'array' ? ['sh', '-c', SHELL_COMMAND] : SHELL_COMMAND;
    else if (name === 'commands') args[name] = [SHELL_COMMAND];
    else if (required.includes(name)) args[name] = values?.[0] ?? madeValue(type);
  }
  return { name: tool.name, args };
}

function madeValue(type: unknown): unknown {
  if (type === 'boolean') return false;
  return type === 'number' || type === 'integer' ? 1000 : 'made up';
}
