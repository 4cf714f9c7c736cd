/** Shapes of request bodies that the gateway checks before a function is called; the functions check the rest. */
import { type JsonSchema, JsonSchemaType, JsonSchemaVersion } from 'aws-cdk-lib/aws-apigateway';

const { STRING, NUMBER, OBJECT } = JsonSchemaType;
const ANY: JsonSchema = {};

function body(title: string, required: string[], properties: Record<string, JsonSchema>): JsonSchema {
  return { schema: JsonSchemaVersion.DRAFT4, title, type: OBJECT, required, properties };
}

export const MODELS = {
  Blueprint: body('Blueprint', ['blueprint'], { blueprint: ANY }),
  Attempt: body('Attempt', ['agent', 'blueprint'], {
    task_id: { type: STRING },
    attempt: { type: NUMBER },
    agent: { type: STRING },
    blueprint: ANY,
    in: ANY,
    in_ref: { type: OBJECT, required: ['key', 'sha256'] },
    context: { type: OBJECT },
    timeout_secs: { type: NUMBER },
  }),
  Run: body('Run', ['blueprint'], {
    blueprint: ANY,
    ctx: ANY,
    run_id: { type: STRING },
    context: { type: OBJECT },
    ttl_secs: { type: NUMBER },
  }),
} as const satisfies Record<string, JsonSchema>;
