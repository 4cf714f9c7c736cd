/** One suite of scenarios through the doors of this machine; test/workflow runs it through the functions on AWS's. */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runFlow } from '../lib/run.ts';
import { cli, startCli } from './support/cli.ts';
import { realPorts, temporaryFolder } from './support/ports.ts';
import { expectTold, SCENARIOS, type Scenario, type Told } from './support/scenarios.ts';

const folder = temporaryFolder();
const scenarios = SCENARIOS.map((scenario) => [scenario.title, scenario] as const);

let server: ReturnType<typeof startCli>;
let url: string;
beforeAll(async () => {
  server = startCli(['serve', '--port', '0'], mkdtempSync(join(folder, 'serve-')));
  url = await new Promise((resolve) =>
    server.stdout.once('data', (line) => resolve(JSON.parse(String(line)).url)),
  );
});
afterAll(async () => {
  server.kill('SIGTERM');
  await new Promise((resolve) => server.once('exit', resolve));
});

const DOORS: Record<string, (scenario: Scenario, run_id: string) => Promise<Told>> = {
  library: async ({ blueprint, ctx }, run_id) => runFlow({ run_id, blueprint, ctx }, await realPorts(folder)),
  'command line': async ({ blueprint, ctx }, run_id) => {
    const dir = mkdtempSync(join(folder, 'cli-'));
    writeFileSync(join(dir, 'b.json'), JSON.stringify(blueprint));
    const { code, stdout } = await cli(
      ['run', 'b.json', '--run-id', run_id, '--ctx', JSON.stringify(ctx)],
      dir,
    );
    const told = JSON.parse(stdout) as Told;
    expect(code).toBe(told.status === 'done' ? 0 : 1);
    return told;
  },
  'local server': async ({ blueprint, ctx }, run_id) => {
    const body = JSON.stringify({ run_id, blueprint, ctx });
    const started = await fetch(`${url}/v1/runs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
    });
    expect(started.status).toBe(202);
    for (;;) {
      const told = (await (await fetch(`${url}/v1/runs/${run_id}`)).json()) as Told;
      if (told.status !== 'running') return told;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  },
};

describe.each(Object.entries(DOORS))('through the %s', (_door, run) => {
  test.each(scenarios)('%s', async (_title, scenario) => {
    expectTold(await run(scenario, `R-${SCENARIOS.indexOf(scenario)}`), scenario);
  });
});
