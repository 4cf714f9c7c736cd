/** What has to come out the same through every door: library, command line, local server, functions under the workflow. */
import { expect } from 'vitest';
import type { JsonObject } from '../../lib/json.ts';
import { oneStep, shellAgents, step } from './documents.ts';

/** How a run ended, as every door tells it. */
export interface Told {
  readonly status: string;
  readonly ctx?: unknown;
  readonly error?: unknown;
}

export interface Scenario {
  readonly title: string;
  readonly blueprint: JsonObject;
  readonly ctx: JsonObject;
  readonly told: object;
}

const at = (path: string) => ({ op: 'path', at: path });
const seq = (...children: JsonObject[]): JsonObject => ({ kind: 'seq', children });

export const SCENARIOS: readonly Scenario[] = [
  {
    title: 'a prompt by stdin, a system prompt by file, a result by pointer, numbers as written',
    blueprint: oneStep(
      {
        argv: ['sh', '-c', 'printf \'{"r": {"p": %s, "s": "%s"}, "ok": true}\' "$(cat)" "$(cat "$S")"'],
        stdin: '{prompt}',
        env: { S: '{system_file}' },
        output: { format: 'json', result_ptr: '/r', ok_from: '/ok' },
      },
      { flow: { kind: 'step', ref: 'w', in: at('$.n'), out: at('$.r') } },
      { profile: { system_prompt: 'be brief' } },
    ),
    ctx: { n: 42 },
    told: { status: 'done', ctx: { n: 42, r: { p: 42, s: 'be brief' } } },
  },
  {
    title: 'a blocked step names itself and its value',
    blueprint: oneStep({ argv: ['sh', '-c', 'echo \'{"why":"no"}\'; exit 3'] }),
    ctx: {},
    told: { status: 'failed', error: { failed_step: 'w', verdict_value: { why: 'no' } } },
  },
  {
    title: 'a program that is missing names itself',
    blueprint: oneStep({ argv: ['no-such-program-xyz'] }),
    ctx: {},
    told: {
      status: 'failed',
      error: { failed_step: 'w', message: expect.stringContaining('no-such-program-xyz') },
    },
  },
  {
    title: 'a fan-out in item order, and a step over what it gathered',
    blueprint: shellAgents(
      { double: 'echo $(($1 * 2))', count: 'printf %s "$1" | wc -c | tr -d " "' },
      seq(
        {
          kind: 'fanout',
          items: at('$.items'),
          bind: at('$.i'),
          body: { kind: 'step', ref: 'double', in: at('$.i'), out: at('$.d') },
          join: 'all',
          out: at('$.all'),
        },
        { kind: 'step', ref: 'count', in: { op: 'lit', value: 'abc' }, out: at('$.n') },
      ),
    ),
    ctx: { items: [1, 2, 3] },
    told: { status: 'done', ctx: { n: 3, all: [{ d: 2 }, { d: 4 }, { d: 6 }] } },
  },
  {
    title: 'a loop that goes on until a step succeeds, its errors caught',
    blueprint: shellAgents(
      { tries: 'test "$1" -ge 2 && echo true' },
      seq(
        { kind: 'assign', at: at('$.good'), value: { op: 'lit', value: false } },
        {
          kind: 'loop',
          counter: at('$.n'),
          cond: { op: 'not', arg: at('$.good') },
          max: 5,
          body: {
            kind: 'try',
            body: { kind: 'step', ref: 'tries', in: at('$.n'), out: at('$.good') },
            catch: seq(),
            err_at: at('$.err'),
          },
        },
      ),
    ),
    ctx: {},
    told: { status: 'done', ctx: { n: 3, good: true, err: expect.stringContaining('blocked: ') } },
  },
  {
    title: 'a stream of events whose final one decides',
    blueprint: oneStep({
      argv: [
        'printf',
        '%s\n',
        '{"type":"progress","stage":"a"}',
        '{"type":"final","ok":true,"content":{"kind":"inline","value":[1]}}',
      ],
      stream_mode: 'ndjson_lines',
    }),
    ctx: {},
    told: { status: 'done', ctx: { r: [1] } },
  },
  {
    title: 'a value that is too large to travel inline',
    blueprint: shellAgents(
      { big: 'printf \'"\'; head -c 300000 /dev/zero | tr "\\0" x; printf \'"\'' },
      step('big', 'x', '$.big'),
    ),
    ctx: {},
    told: { status: 'done', ctx: { big: 'x'.repeat(300_000) } },
  },
];

export function expectTold(told: Told, scenario: Scenario): void {
  expect(told).toMatchObject(scenario.told);
}
