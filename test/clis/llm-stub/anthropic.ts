/** Anthropic Messages: `POST /v1/messages`. */
import * as z from 'zod';
import type { EventStream } from './event-stream.ts';
import { type Call, Content, JsonSchema, pieces, type Reply, TOKENS } from './turn.ts';

const Request = z.looseObject({
  model: z.string(),
  stream: z.boolean().default(false),
  system: Content,
  messages: z.array(
    z.looseObject({
      role: z.string(),
      content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
    }),
  ),
  tools: z.array(z.looseObject({ name: z.string(), input_schema: JsonSchema })).default([]),
});

export function readCall(body: unknown): Call {
  const { model, stream, system, messages, tools } = Request.parse(body);
  const said = messages.filter(({ role }) => role === 'user').map(({ content }) => content);
  return {
    model,
    stream,
    system,
    users: said.map((content) => Content.parse(content)),
    tools: tools.map(({ name, input_schema }) => ({ name, schema: input_schema })),
    has_tool_result: said.some(
      (content) => Array.isArray(content) && content.some(({ type }) => type === 'tool_result'),
    ),
  };
}

/** The whole answer, for a call that does not stream. */
export function writeAnswer({ model }: Call, reply: Reply, id: string): unknown {
  const content: unknown[] = [{ type: 'text', text: reply.text }];
  if (reply.tool)
    content.push({ type: 'tool_use', id: `toolu_${id}`, name: reply.tool.name, input: reply.tool.args });
  return { ...message(model, id), content, stop_reason: stopReason(reply) };
}

export function streamAnswer(
  { model }: Call,
  reply: Reply,
  { stream, id }: { stream: EventStream; id: string },
) {
  const send = (type: string, more: object): void => stream.event(type, { type, ...more });
  send('message_start', { message: { ...message(model, id), content: [], stop_reason: null } });
  send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
  for (const text of pieces(reply))
    send('content_block_delta', { index: 0, delta: { type: 'text_delta', text } });
  if (reply.cut) return;
  send('content_block_stop', { index: 0 });
  if (reply.tool) {
    const { name, args } = reply.tool;
    send('content_block_start', {
      index: 1,
      content_block: { type: 'tool_use', id: `toolu_${id}`, name, input: {} },
    });
    const delta = { type: 'input_json_delta', partial_json: JSON.stringify(args) };
    send('content_block_delta', { index: 1, delta });
    send('content_block_stop', { index: 1 });
  }
  send('message_delta', {
    delta: { stop_reason: stopReason(reply), stop_sequence: null },
    usage: { output_tokens: TOKENS.output },
  });
  send('message_stop', {});
}

const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

export function writeError(status: number, message: string): unknown {
  return { type: 'error', error: { type: TYPES[status] ?? 'api_error', message }, request_id: 'req_1' };
}

function message(model: string, id: string): object {
  const usage = {
    input_tokens: TOKENS.input,
    output_tokens: TOKENS.output,
    cache_read_input_tokens: TOKENS.cached,
    cache_creation_input_tokens: 0,
  };
  return { id: `msg_${id}`, type: 'message', role: 'assistant', model, stop_sequence: null, usage };
}

function stopReason({ tool }: Reply): string {
  return tool ? 'tool_use' : 'end_turn';
}
