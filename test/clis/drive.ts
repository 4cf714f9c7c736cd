/** Runs a recipe as its user does, pointed at a stub of the model API. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parse } from 'jsonc-parser';
import type { TaskResult } from '../../lib/task.ts';
import { cli } from '../support/cli.ts';
import { runningWith } from '../support/processes.ts';
import { ENDPOINTS, type Endpoint } from './endpoints.ts';
import { binFolder } from './install.ts';
import { type Asked, startStub } from './llm-stub/stub.ts';
import type { Mode } from './llm-stub/turn.ts';

export interface Driven {
  readonly result: TaskResult;
  readonly calls: readonly Asked[];
  /** what the agent of the recipe declares */
  readonly recipe: Profile;
  /** where the CLI ran */
  readonly work: string;
  /** what the shell command of the stub wrote there */
  readonly toolRan: string | null;
  /** processes of the attempt that still run */
  readonly running: readonly string[];
  /** what is left of the attempt's private folders */
  readonly scratch: readonly string[];
  /** every byte of the store, as text */
  readonly stored: string;
}

export const PROMPT = 'Say "hello" `$&` {model} {prompt} $(touch x) \\ %s é漢😀\nand ü.';
export const KEY = 'sk-stub-0123456789abcdef0123456789abcdef';

const RECIPES = join(import.meta.dirname, '..', '..', 'recipes');

interface Recipe {
  readonly subprocesses: readonly [
    {
      argv: string[];
      env?: Record<string, string>;
      files?: Record<string, string>;
      secrets: Record<string, string>;
    },
  ];
  readonly agents: readonly [{ profile: Profile }];
}

interface Profile {
  readonly system_prompt: string;
  readonly model: string;
}

/** Gives `prompt` to the recipe `name` against a stub in `mode`. */
export async function drive(
  name: string,
  { mode, timeoutSecs }: { mode: Mode; timeoutSecs: number },
): Promise<Driven> {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`));
  const stub = await startStub(mode);
  try {
    const at = (part: string): string => join(folder, part);
    for (const part of ['work', 'store', 'here', 'scratch']) mkdirSync(at(part));
    const recipe: Recipe = parse(readFileSync(join(RECIPES, `${name}.json`), 'utf8'));
    const mark = `DRIVEN_BY=${folder}`;
    pointAt(recipe, ENDPOINTS[name]!(stub.url), folder);
    writeFileSync(at('recipe.json'), JSON.stringify(recipe));
    writeFileSync(at('prompt.txt'), PROMPT);
    const secrets = Object.values(recipe.subprocesses[0].secrets);
    const ran = await cli(
      [
        ...['spawn', at('recipe.json'), '--agent', name, '--in-file', at('prompt.txt')],
        ...['--work-dir', at('work'), '--store', pathToFileURL(at('store')).href],
        ...['--timeout-secs', String(timeoutSecs)],
        ...secrets.flatMap((secret) => ['--secret', `${secret}=env:KEY`]),
      ],
      at('here'),
      { PATH: `${binFolder(name)}${delimiter}${process.env.PATH}`, KEY, SCRATCH_DIR: at('scratch') },
    );
    if (ran.stdout === '') throw new Error(`the recipe did not run: ${ran.stderr}`);
    return {
      result: JSON.parse(ran.stdout),
      calls: stub.calls,
      recipe: recipe.agents[0].profile,
      work: at('work'),
      toolRan: readOrNull(at('work/tool-ran.txt')),
      running: runningWith(mark),
      scratch: readdirSync(at('scratch'), { recursive: true, encoding: 'utf8' }),
      stored: allText(at('store')),
    };
  } finally {
    stub.stop();
    await rm(folder, { recursive: true, force: true });
  }
}

function pointAt({ subprocesses: [template] }: Recipe, { env, argv, files }: Endpoint, mark: string): void {
  template.env = { ...template.env, ...env, DRIVEN_BY: mark };
  template.argv = [...template.argv, ...(argv ?? [])];
  template.files = { ...template.files, ...files };
}

function readOrNull(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

function allText(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), 'utf8'))
    .join('\n');
}
