/** Small Blueprints for tests. */
import type { JsonObject, JsonValue } from '../../lib/json.ts';

/** A document with one agent `w` whose template is given, and a flow of one step that writes `$.r`. */
export function oneStep(template: JsonObject, rest: JsonObject = {}, agent: JsonObject = {}): JsonObject {
  return {
    id: 't',
    flow: step('w', 'hello', '$.r'),
    agents: [{ name: 'w', kind: 'subprocess', runner: { backend: 'subprocess', template: 't' }, ...agent }],
    subprocesses: [{ name: 't', ...template }],
    ...rest,
  };
}

/** A document with one agent for each shell script, named by its key. */
export function shellAgents(scripts: Record<string, string>, flow: JsonValue): JsonObject {
  const names = Object.keys(scripts);
  return {
    id: 't',
    flow,
    agents: names.map((name) => ({
      name,
      kind: 'subprocess',
      runner: { backend: 'subprocess', template: name },
    })),
    subprocesses: names.map((name) => ({ name, argv: ['sh', '-c', scripts[name]!, name, '{prompt}'] })),
  };
}

export function step(ref: string, input: JsonValue, out: string): JsonObject {
  return { kind: 'step', ref, in: { op: 'lit', value: input }, out: { op: 'path', at: out } };
}
