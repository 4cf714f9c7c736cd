/** OpenAI Chat Completions: `POST /v1/chat/completions`. */
import * as z from 'zod';
import type { EventStream } from './event-stream.ts';
import { type Call, Content, JsonSchema, pieces, type Reply, TOKENS } from './turn.ts';

const Request = z.looseObject({
  model: z.string(),
  stream: z.boolean().default(false),
  messages: z.array(z.looseObject({ role: z.string(), content: Content })),
  tools: z
    .array(z.looseObject({ function: z.looseObject({ name: z.string(), parameters: JsonSchema }) }))
    .default([]),
});

export function readCall(body: unknown): Call {
  const { model, stream, messages, tools } = Request.parse(body);
  const saidBy = (...roles: string[]): string[] =>
    messages.filter(({ role }) => roles.includes(role)).map(({ content }) => content);
  return {
    model,
    stream,
    system: saidBy('system', 'developer').join('\n'),
    users: saidBy('user'),
    tools: tools.map((tool) => ({ name: tool.function.name, schema: tool.function.parameters })),
    has_tool_result: messages.some(({ role }) => role === 'tool'),
  };
}

/** The whole answer, for a call that does not stream. */
export function writeAnswer({ model }: Call, reply: Reply, id: string): unknown {
  const tools = reply.tool && { tool_calls: toolCalls(reply, id) };
  const message = { role: 'assistant', content: reply.text, ...tools };
  const choices = [{ index: 0, message, finish_reason: finishReason(reply) }];
  return { id: `chatcmpl_${id}`, object: 'chat.completion', created: 0, model, choices, usage: USAGE };
}

export function streamAnswer(
  { model }: Call,
  reply: Reply,
  { stream, id }: { stream: EventStream; id: string },
) {
  const chunk = { id: `chatcmpl_${id}`, object: 'chat.completion.chunk', created: 0, model };
  const send = (delta: object, finish_reason: string | null = null): void =>
    stream.data(JSON.stringify({ ...chunk, choices: [{ index: 0, delta, finish_reason }] }));
  send({ role: 'assistant', content: '' });
  if (reply.tool) send({ tool_calls: toolCalls(reply, id) });
  else for (const content of pieces(reply)) send({ content });
  if (reply.cut) return;
  send({}, finishReason(reply));
  stream.data(JSON.stringify({ ...chunk, choices: [], usage: USAGE }));
  stream.data('[DONE]');
}

const CODES: Readonly<Record<number, string>> = {
  401: 'invalid_api_key',
  404: 'model_not_found',
  429: 'rate_limit_exceeded',
};

/** The error of both OpenAI protocols. */
export function writeError(status: number, message: string): unknown {
  const type = status < 500 ? 'invalid_request_error' : 'server_error';
  return { error: { message, type, code: CODES[status] ?? null, param: null } };
}

const USAGE = {
  prompt_tokens: TOKENS.input,
  prompt_tokens_details: { cached_tokens: TOKENS.cached },
  completion_tokens: TOKENS.output,
  total_tokens: TOKENS.input + TOKENS.output,
};

function toolCalls({ tool }: Reply, id: string): object[] {
  const call = { name: tool?.name, arguments: JSON.stringify(tool?.args) };
  return [{ index: 0, id: `call_${id}`, type: 'function', function: call }];
}

function finishReason({ tool }: Reply): string {
  return tool ? 'tool_calls' : 'stop';
}
