/** Each recipe with its real CLI, asking a stub of the model API; started by .ci/clis.sh. */
import { readdirSync } from 'node:fs';
import { networkInterfaces } from 'node:os';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { isRunning } from '../support/processes.ts';
import { type Driven, drive, KEY, PROMPT } from './drive.ts';
import { DRIVEN } from './install.ts';
import { ANSWER } from './llm-stub/turn.ts';
import { OUTCOMES, type Outcome, SCENARIOS, type Scenario } from './outcomes.ts';

/** Seconds that a hang may take: long enough for a slow start. */
const HANG_SECS = 20;
const LONGEST_SECS = 140;

const before: { tmp: string[]; processes: string[] } = { tmp: [], processes: [] };

beforeAll(() => {
  const reachable = Object.keys(networkInterfaces()).filter((name) => name !== 'lo');
  if (reachable.length > 0)
    throw new Error(
      `the CLIs must reach nothing but the stub, and there is ${reachable}; use npm run test:clis`,
    );
  before.tmp = readdirSync('/tmp');
  before.processes = processes();
});

/** The slowest first, so that the others run beside it. */
const RUNS = DRIVEN.toReversed().flatMap((name) =>
  (Object.keys(SCENARIOS) as Scenario[]).map((scenario) => ({ name, scenario })),
);

test.concurrent.each(RUNS)('$name: $scenario', async ({ name, scenario }) => {
  const driven = await drive(name, {
    mode: SCENARIOS[scenario],
    timeoutSecs: scenario === 'hang' ? HANG_SECS : LONGEST_SECS,
  });
  const { value = ANSWER, ...expected } = OUTCOMES[name]![scenario];
  expect(outcomeOf(driven)).toEqual({
    ...expected,
    ok: expected.reason === null,
    model: driven.recipe.model,
    says: expected.says === null ? null : expect.stringContaining(expected.says),
  });
  if (expected.reason === null) expect(driven.result.value).toBe(value);
  expect(driven.toolRan).toBe(scenario === 'tool turn' ? `${driven.work}\n` : null);
  const [asked] = driven.calls;
  expect(asked?.system).toContain(driven.recipe.system_prompt);
  expect(asked?.users.at(-1)).toContain(PROMPT);
  expect([driven.running, driven.scratch]).toEqual([[], []]);
  expect([asked?.key, driven.stored.includes(KEY)]).toEqual([KEY, false]);
});

afterAll(() => {
  const left = processes().filter((pid) => !before.processes.includes(pid));
  // codex makes one empty folder for all that it runs in its sandbox
  const known = [...before.tmp, `codex-daemon-${process.getuid?.()}`];
  const files = readdirSync('/tmp').filter((name) => !known.includes(name));
  expect([left, files]).toEqual([[], []]);
});

function outcomeOf({ result }: Driven): Outcome & { readonly ok: boolean; readonly model: unknown } {
  const { message, class: kind } = result.reported_error ?? {};
  return {
    ok: result.ok,
    reason: result.reason,
    model: result.stats.model,
    usage: result.stats.usage ?? null,
    says: message == null ? null : [kind, message].filter(Boolean).join(': '),
    retry: result.retry !== undefined,
  };
}

function processes(): string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && isRunning(name));
}
