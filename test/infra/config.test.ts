/** Stage configuration: what is refused, and the user cases of level `stack`. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readStage, StageKeys } from '../../infra/config.ts';
import { checkedEnvironment } from '../../infra/environment.ts';
import { writeSettings } from '../../lib/config.ts';
import type { JsonObject } from '../../lib/json.ts';
import { readCases } from '../support/cases.ts';

describe('stage configuration', () => {
  const refused = (stage: unknown, given: unknown = {}): string => {
    try {
      return JSON.stringify(readStage(stage, given));
    } catch (error) {
      return (error as Error).message;
    }
  };

  test('an unknown stage is refused with those there are', () => {
    expect(refused('test')).toBe("stage 'test' is not known; give -c stage=dev or -c stage=prod");
    expect(refused(undefined)).toBe("stage '' is not known; give -c stage=dev or -c stage=prod");
  });

  test.each([
    [{ memory_mb: 64 }, /^stage 'dev': memory_mb=64: .*128/],
    [{ region: 'somewhere' }, /region="somewhere": expected a region/],
    [{ log_retention_days: 8 }, /log_retention_days=8: /],
    [{ architecture: 'mips' }, /architecture="mips": .*arm64.*x86_64/],
    [{ apt_packages: ['jq; rm -rf /'] }, /apt_packages.0="jq; rm -rf \/": expected a Debian package/],
    [{ npm_packages: ['a b'] }, /npm_packages.0="a b": expected an npm package/],
    [{ secrets: { x: 'env:HOME' } }, /secrets.x="env:HOME": expected secretsmanager:ID or ssm:NAME/],
    [{ alarm_email: 'nobody' }, /alarm_email="nobody": /],
    [{ memory: 1 }, /^stage 'dev': Unrecognized key: "memory"/],
    [{ memory_mb: 1, api_rate: 0 }, /memory_mb=1: .*; api_rate=0: /],
  ])('%j is refused by name', (given, message) => {
    expect(refused('dev', given)).toMatch(message);
  });
});

test('docs/deploy.md lists every key with its defaults', () => {
  const text = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'deploy.md'), 'utf8');
  const table = text.slice(text.indexOf('| key ')).split('\n\n')[0]!.split('\n').slice(2);
  const listed = table.map((line) =>
    line
      .split('|')
      .slice(1, 4)
      .map((cell) => cell.trim()),
  );
  const keys = Object.keys(StageKeys.shape) as (keyof typeof StageKeys.shape)[];
  const shown = (stage: 'dev' | 'prod', key: (typeof keys)[number]) =>
    JSON.stringify(readStage(stage)[key])?.replaceAll(',', ', ') ?? '';
  expect(listed).toEqual(keys.map((key) => [key, shown('dev', key), shown('prod', key)]));
});

/** What proves each user case of level `stack`. */
const PROOFS: Readonly<Record<string, () => void>> = {
  'G03-overlapping-attempts': () => {
    const { function_timeout_secs, state_timeout_secs, ...stage } = readStage('prod');
    const limits = [
      stage.child_timeout_secs,
      function_timeout_secs,
      state_timeout_secs,
      stage.execution_timeout_secs,
    ];
    expect(limits).toEqual([...limits].sort((a, b) => a - b));
    expect(new Set(limits).size).toBe(4);
    expect(() => readStage('prod', { child_timeout_secs: 300, function_timeout_secs: 300 })).toThrow(
      'function_timeout_secs=300 is too short: it contains child_timeout_secs=300; allowed is 315 or more',
    );
    expect(() => readStage('prod', { state_timeout_secs: 885 })).toThrow(
      'state_timeout_secs=885 is too short: it contains function_timeout_secs=885; allowed is 895 or more',
    );
    expect(() => readStage('prod', { execution_timeout_secs: 600 })).toThrow(
      'execution_timeout_secs=600 is too short: it contains state_timeout_secs=915',
    );
  },
  'G13-env-4k': () => {
    const many = Array.from({ length: 30 }, (_, i) => [`secret-${i}`, `secretsmanager:${'x'.repeat(150)}`]);
    const { secrets, inline_blueprints } = readStage('dev', { secrets: Object.fromEntries(many) });
    const settings = writeSettings({ store_url: 's3://bucket', inline_blueprints, secrets });
    const bytes = Buffer.byteLength(JSON.stringify(secrets)) + 'SECRETS'.length;
    expect(() => checkedEnvironment('Worker', settings)).toThrow(
      `the environment of function Worker has ${bytes + 20 + 21} bytes, the limit is 4096: SECRETS ${bytes}, INLINE_BLUEPRINTS 21, STORE_URL 20;`,
    );
    expect(checkedEnvironment('Worker', writeSettings({ secrets: {} }))).toEqual({ SECRETS: '{}' });
  },
};

test.each(
  readCases('users.jsonl').filter(({ expect: expected }) => (expected as JsonObject).level === 'stack'),
)('$id: $fault', ({ id }) => {
  expect(PROOFS).toHaveProperty(String(id));
  PROOFS[String(id)]!();
});
