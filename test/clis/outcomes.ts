/** What the recipes make of each scenario: real runs are held against it, and docs/recipes.md shows it. */
import type { Reason, Usage } from '../../lib/task.ts';
import { ANSWER, type Mode, TOKENS } from './llm-stub/turn.ts';

export interface Outcome {
  /** null where the step passes */
  readonly reason: Reason | null;
  readonly usage: Usage | null;
  /** part of what the CLI says went wrong */
  readonly says: string | null;
  /** whether the recipe asks for a new attempt */
  readonly retry: boolean;
  /** the value of a step that passes, where it is not the answer of the stub */
  readonly value?: string;
}

/** Modes of the stub by what they stand for. */
export const SCENARIOS = {
  'good turn': 'answer',
  'tool turn': 'tool',
  'status 401': 401,
  'status 429': 429,
  'status 500': 500,
  'dropped stream': 'cut',
  'dropped once': 'cut_once',
  'empty answer': 'empty',
  hang: 'hang',
} as const satisfies Readonly<Record<string, Mode>>;
export type Scenario = keyof typeof SCENARIOS;

const HANG: Outcome = { reason: 'timed_out', usage: null, says: null, retry: false };

/** What some CLIs make of a stream that breaks once. */
const BEGINS_TWICE = `${ANSWER.slice(0, -' end'.length)}${ANSWER}`;

export const OUTCOMES: Readonly<Record<string, Readonly<Record<Scenario, Outcome>>>> = {
  claude: {
    'good turn': passed(written(1)),
    'tool turn': passed(written(2)),
    'status 401': failed('authentication_error: Failed to authenticate', written(0)),
    'status 429': again('rate_limit_error: API Error: Request rejected (429)', written(0)),
    'status 500': again('api_error: API Error: 500 the stub says 500', written(0)),
    'dropped stream': again('Connection to the API was lost (ECONNRESET)', written(4)),
    'dropped once': passed(written(2)),
    'empty answer': { reason: 'ok_not_true', usage: written(2), says: '', retry: false },
    hang: HANG,
  },
  codex: {
    'good turn': passed(written(1)),
    'tool turn': passed(written(2)),
    'status 401': failed('unexpected status 401 Unauthorized: the stub says 401', null),
    'status 429': again('exceeded retry limit, last status: 429 Too Many Requests', null),
    'status 500': again('currently experiencing high demand', null),
    'dropped stream': again('stream disconnected before completion', null),
    'dropped once': passed(written(1)),
    'empty answer': { reason: 'ok_not_true', usage: written(1), says: null, retry: false },
    hang: HANG,
  },
  gemini: {
    'good turn': passed(read(1)),
    'tool turn': passed(read(2)),
    'status 401': failed('"code":401,"message":"the stub says 401"', read(0)),
    'status 429': again('[API Error: the stub says 429]', read(0)),
    'status 500': again('"code":500,"message":"the stub says 500"', read(0)),
    'dropped stream': again('[API Error: terminated]', read(0)),
    'dropped once': again('[API Error: terminated]', read(0)),
    'empty answer': { reason: 'ok_not_true', usage: read(3), says: null, retry: false },
    hang: HANG,
  },
  opencode: {
    'good turn': passed(totalled(1)),
    'tool turn': passed(totalled(2)),
    'status 401': failed('APIError: the stub says 401', null),
    'status 429': again('APIError: the stub says 429', null),
    'status 500': again('APIError: the stub says 500', null),
    'dropped stream': again('APIError: Connection reset by server', null),
    'dropped once': passed(totalled(1)),
    'empty answer': { reason: 'ok_not_true', usage: totalled(1), says: null, retry: false },
    hang: HANG,
  },
  qwen: {
    'good turn': passed(read(1)),
    'tool turn': passed(read(2)),
    'status 401': failed('[API Error: 401 the stub says 401]', read(0)),
    'status 429': again('[API Error: 429 the stub says 429]', read(0)),
    'status 500': again('[API Error: 500 the stub says 500]', read(0)),
    'dropped stream': again('[API Error: terminated', read(0)),
    'dropped once': { ...passed(read(1)), value: BEGINS_TWICE },
    'empty answer': failed('Model stream ended with empty response text', read(5)),
    hang: HANG,
  },
  copilot: {
    'good turn': passed(null),
    'tool turn': passed(null),
    'status 401': failed('authentication: Authentication failed', null),
    'status 429': again('rate_limit: Failed to get response from the AI model; retried 5 times', null),
    'status 500': again('query: Failed to get response from the AI model; retried 5 times', null),
    'dropped stream': again('query: Failed to get response from the AI model; retried 5 times', null),
    'dropped once': passed(null),
    'empty answer': failed('query: No response was returned', null),
    hang: HANG,
  },
  pi: {
    'good turn': passed(totalled(1)),
    'tool turn': passed(totalled(2)),
    'status 401': { ...failed('401 {"type":"error"', written(0)), reason: 'ok_not_true' },
    'status 429': { ...again('429 {"type":"error"', written(0)), reason: 'ok_not_true' },
    'status 500': { ...again('500 {"type":"error"', written(0)), reason: 'ok_not_true' },
    'dropped stream': { ...again('terminated', totalled(4)), reason: 'ok_not_true' },
    'dropped once': passed(totalled(2)),
    'empty answer': { reason: 'ok_not_true', usage: totalled(1), says: null, retry: false },
    hang: HANG,
  },
  cline: {
    'good turn': passed(written(1)),
    'tool turn': passed(written(2)),
    'status 401': failed('the stub says 401', written(0)),
    'status 429': failed('the stub says 429', written(0)),
    'status 500': failed('the stub says 500', written(0)),
    'dropped stream': again('The socket connection was closed unexpectedly', written(0)),
    'dropped once': again('The socket connection was closed unexpectedly', written(0)),
    'empty answer': failed('Model returned empty response', written(3)),
    hang: HANG,
  },
  continue: {
    'good turn': passed(null),
    'tool turn': passed(null),
    'status 401': failed(null, null),
    'status 429': failed(null, null),
    'status 500': failed(null, null),
    'dropped stream': failed(null, null),
    'dropped once': { ...passed(null), value: BEGINS_TWICE },
    'empty answer': { reason: 'stdout_not_json', usage: null, says: null, retry: false },
    hang: HANG,
  },
};

/** The row of docs/recipes.md. */
export function tableRow(name: string, scenario: Scenario): string {
  const { reason, usage, says, retry, value } = OUTCOMES[name]![scenario];
  const tokens = usage ? `${usage.input_tokens} / ${usage.output_tokens}` : 'none';
  const cells = [
    name,
    scenario,
    reason === null ? 'yes' : 'no',
    reason ?? '',
    tokens,
    retry ? 'yes' : '',
    value === undefined ? (says ?? '') : 'nothing; the answer begins twice',
  ];
  return `| ${cells.join(' | ')} |`;
}

function passed(usage: Usage | null): Outcome {
  return { reason: null, usage, says: null, retry: false };
}

function failed(says: string | null, usage: Usage | null): Outcome {
  return { reason: 'exit_nonzero', usage, says, retry: false };
}

function again(says: string, usage: Usage | null): Outcome {
  return { ...failed(says, usage), retry: true };
}

/** Tokens of so many answers of the stub, from a CLI that tells what it read from a cache. */
function read(turns: number): Usage {
  const input_tokens = TOKENS.input * turns;
  const output_tokens = TOKENS.output * turns;
  const total_tokens = input_tokens + output_tokens;
  return { input_tokens, output_tokens, total_tokens, cache_read_tokens: TOKENS.cached * turns };
}

/** Likewise, and what it wrote to one. */
function written(turns: number): Usage {
  return { ...read(turns), cache_write_tokens: 0 };
}

/** Likewise, where the total holds what was read from the cache. */
function totalled(turns: number): Usage {
  const usage = written(turns);
  return { ...usage, total_tokens: usage.total_tokens + TOKENS.cached * turns };
}
