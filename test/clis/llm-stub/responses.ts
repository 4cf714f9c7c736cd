/** OpenAI Responses: `POST /v1/responses`. */
import * as z from 'zod';
import type { EventStream } from './event-stream.ts';
import { type Call, Content, JsonSchema, pieces, type Reply, TOKENS } from './turn.ts';

const Item = z.looseObject({
  type: z.string().default('message'),
  role: z.string().optional(),
  content: Content,
});
const Request = z.looseObject({
  model: z.string(),
  stream: z.boolean().default(false),
  instructions: Content,
  input: z.union([
    z.string().transform((content) => [{ type: 'message', role: 'user', content }]),
    z.array(Item),
  ]),
  tools: z
    .array(z.looseObject({ type: z.string(), name: z.string().optional(), parameters: JsonSchema }))
    .default([]),
});

export function readCall(body: unknown): Call {
  const { model, stream, instructions, input, tools } = Request.parse(body);
  const saidBy = (...roles: string[]): string[] =>
    input.filter(({ role }) => role !== undefined && roles.includes(role)).map(({ content }) => content);
  return {
    model,
    stream,
    system: [instructions, ...saidBy('developer', 'system')].join('\n'),
    users: saidBy('user'),
    tools: tools.map(({ type, name, parameters }) => ({ name: name ?? type, schema: parameters })),
    has_tool_result: input.some(({ type }) => type.endsWith('call_output')),
  };
}

/** The whole answer, for a call that does not stream. */
export function writeAnswer({ model }: Call, reply: Reply, id: string): unknown {
  return { ...response(model, id), status: 'completed', output: [output(reply, id)], usage: USAGE };
}

export function streamAnswer(call: Call, reply: Reply, { stream, id }: { stream: EventStream; id: string }) {
  let sequence_number = 0;
  const send = (type: string, more: object): void =>
    stream.event(type, { type, sequence_number: sequence_number++, ...more });
  const item = output(reply, id);
  const place = { item_id: item.id, output_index: 0 };
  send('response.created', { response: response(call.model, id) });
  if (item.type === 'function_call') {
    send('response.output_item.added', { output_index: 0, item: { ...item, arguments: '' } });
    send('response.function_call_arguments.delta', { ...place, delta: item.arguments });
    send('response.function_call_arguments.done', { ...place, arguments: item.arguments });
  } else {
    const part = { type: 'output_text', text: reply.text, annotations: [] };
    send('response.output_item.added', { output_index: 0, item: { ...item, content: [] } });
    send('response.content_part.added', { ...place, content_index: 0, part: { ...part, text: '' } });
    for (const delta of pieces(reply))
      send('response.output_text.delta', { ...place, content_index: 0, delta });
    if (reply.cut) return;
    send('response.output_text.done', { ...place, content_index: 0, text: reply.text });
    send('response.content_part.done', { ...place, content_index: 0, part });
  }
  send('response.output_item.done', { output_index: 0, item });
  send('response.completed', { response: writeAnswer(call, reply, id) });
}

const USAGE = {
  input_tokens: TOKENS.input,
  input_tokens_details: { cached_tokens: TOKENS.cached },
  output_tokens: TOKENS.output,
  output_tokens_details: { reasoning_tokens: 0 },
  total_tokens: TOKENS.input + TOKENS.output,
};

function output({ text, tool }: Reply, id: string) {
  if (tool) {
    const { name, args } = tool;
    const status = 'completed';
    const call_id = `call_${id}`;
    return {
      id: `fc_${id}`,
      type: 'function_call',
      status,
      call_id,
      name,
      arguments: JSON.stringify(args),
    } as const;
  }
  const content = [{ type: 'output_text', text, annotations: [] }];
  return { id: `msg_${id}`, type: 'message', status: 'completed', role: 'assistant', content } as const;
}

function response(model: string, id: string): object {
  return {
    id: `resp_${id}`,
    object: 'response',
    created_at: 0,
    model,
    status: 'in_progress',
    output: [],
    error: null,
  };
}
