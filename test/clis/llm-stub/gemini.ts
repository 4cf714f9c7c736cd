/** Gemini: `POST /v1beta/models/MODEL:generateContent` and `:streamGenerateContent`. */
import * as z from 'zod';
import type { EventStream } from './event-stream.ts';
import { type Call, Content, JsonSchema, pieces, type Reply, TOKENS } from './turn.ts';

const Parts = z.looseObject({ parts: z.array(z.looseObject({ text: z.string().optional() })).default([]) });
const Request = z.looseObject({
  systemInstruction: Parts.optional(),
  contents: z.array(Parts.extend({ role: z.string().default('user') })),
  tools: z
    .array(
      z.looseObject({
        functionDeclarations: z
          .array(
            z.looseObject({
              name: z.string(),
              parametersJsonSchema: z.unknown().optional(),
              parameters: z.unknown().optional(),
            }),
          )
          .default([]),
      }),
    )
    .default([]),
});

export function readCall(body: unknown, model: string, stream: boolean): Call {
  const { systemInstruction, contents, tools } = Request.parse(body);
  return {
    model,
    stream,
    system: Content.parse(systemInstruction?.parts),
    users: contents.filter(({ role }) => role === 'user').map(({ parts }) => Content.parse(parts)),
    tools: tools
      .flatMap(({ functionDeclarations }) => functionDeclarations)
      .map(({ name, parametersJsonSchema, parameters }) => ({
        name,
        schema: JsonSchema.parse(parametersJsonSchema ?? parameters),
      })),
    has_tool_result: contents.some(({ parts }) => parts.some((part) => 'functionResponse' in part)),
  };
}

/** The whole answer, for a call that does not stream. */
export function writeAnswer({ model }: Call, { text, tool }: Reply): unknown {
  return candidate(model, tool ? { functionCall: tool } : { text }, 'STOP');
}

export function streamAnswer({ model }: Call, reply: Reply, { stream }: { stream: EventStream }) {
  const send = (part: object, finish?: string): void =>
    stream.data(JSON.stringify(candidate(model, part, finish)));
  const parts = reply.tool ? [{ functionCall: reply.tool }] : pieces(reply).map((text) => ({ text }));
  for (const [i, part] of parts.entries())
    send(part, !reply.cut && i === parts.length - 1 ? 'STOP' : undefined);
}

const STATUSES: Readonly<Record<number, string>> = {
  401: 'UNAUTHENTICATED',
  404: 'NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
};

export function writeError(status: number, message: string): unknown {
  return { error: { code: status, message, status: STATUSES[status] ?? 'INTERNAL' } };
}

function candidate(model: string, part: object, finishReason?: string): object {
  const candidates = [{ index: 0, content: { role: 'model', parts: [part] }, finishReason }];
  const usageMetadata = {
    promptTokenCount: TOKENS.input,
    cachedContentTokenCount: TOKENS.cached,
    candidatesTokenCount: TOKENS.output,
    totalTokenCount: TOKENS.input + TOKENS.output,
  };
  return { candidates, modelVersion: model, usageMetadata, responseId: 'r_1' };
}
