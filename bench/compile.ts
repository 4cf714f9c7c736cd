/** Compile of a document with many agents and templates, each agent with a template of its own. */
import { compile } from '../lib/blueprint/compile.ts';
import type { JsonObject } from '../lib/json.ts';
import { compare, type Measured, time } from './measure.ts';

export async function measure(): Promise<readonly Measured[]> {
  const [small, large, huge] = [1000, 10_000, 100_000].map(documentOf) as [
    JsonObject,
    JsonObject,
    JsonObject,
  ];
  const run = (document: JsonObject) => () =>
    time(() => {
      if (!compile(document).ok) throw new Error('the benchmark document does not compile');
    });
  return [
    await compare({
      what: '10,000 agents and templates against 1,000',
      goal: 12,
      ours: run(large),
      floor: run(small),
      rounds: 9,
    }),
    await compare({
      what: '100,000 against 10,000',
      goal: 14,
      ours: run(huge),
      floor: run(large),
      rounds: 3,
    }),
  ];
}

function documentOf(count: number): JsonObject {
  const names = Array.from({ length: count }, (_, i) => `n${i}`);
  return {
    id: 'bench',
    flow: { kind: 'seq', children: [] },
    agents: names.map((name) => ({
      name,
      kind: 'subprocess',
      runner: { backend: 'subprocess', template: name, overrides: { model: 'm' } },
      profile: { system_prompt: 'You are {name}.', tools: ['A', 'B'] },
    })),
    subprocesses: names.map((name) => ({
      name,
      argv: ['tool', '--model', '{model}', '--tools', '{tools_csv}'],
      stdin: '{"task": "{prompt}"}',
      env: { SYSTEM: '{system_file}' },
      output: { format: 'json', result_ptr: '/result', ok_from: '/ok' },
    })),
  };
}
