/** Each import rule is proven by a planted violation. */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from './support/ports.ts';

const project = join(import.meta.dirname, '..');
const folder = temporaryFolder();

/** rule, the file that breaks it, what it imports */
const PLANTED = [
  ['no-cycles', 'lib/a.ts', './b.ts', 'lib/b.ts', './a.ts'],
  ['lib-knows-no-entry', 'lib/a.ts', '../cli/b.ts', 'cli/b.ts', ''],
  ['lib-knows-no-platform', 'lib/a.ts', 'commander', '', ''],
  ['errors-are-the-floor', 'lib/errors.ts', './b.ts', 'lib/b.ts', ''],
  ['json-stands-on-errors', 'lib/json.ts', './task.ts', 'lib/task.ts', ''],
  ['task-and-config-stand-on-json', 'lib/task.ts', './run.ts', 'lib/run.ts', ''],
  ['blueprint-knows-no-layer-above', 'lib/blueprint/a.ts', '../flow/b.ts', 'lib/flow/b.ts', ''],
  ['flow-knows-only-blueprint', 'lib/flow/a.ts', '../worker/b.ts', 'lib/worker/b.ts', ''],
  ['worker-knows-no-store', 'lib/worker/a.ts', '../store/b.ts', 'lib/store/b.ts', ''],
  ['store-knows-no-worker', 'lib/store/a.ts', '../worker/b.ts', 'lib/worker/b.ts', ''],
  ['blueprint-and-flow-are-pure', 'lib/flow/a.ts', 'node:fs', '', ''],
  ['one-door-to-s3', 'lib/worker/a.ts', '@aws-sdk/client-s3', '', ''],
  ['functions-see-lib-only', 'functions/a.ts', '../cli/b.ts', 'cli/b.ts', ''],
  ['infra-sees-config-and-errors-only', 'infra/a.ts', '../lib/task.ts', 'lib/task.ts', ''],
  ['one-door-to-processes', 'lib/worker/a.ts', 'node:child_process', '', ''],
] as const;

function plant(root: string, file: string, imported: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  const use = imported === '' ? '' : `import * as used from '${imported}';\nexport const y = used;\n`;
  writeFileSync(join(root, file), `${use}export const x = 1;\n`);
}

test.each(PLANTED)('%s is caught', (rule, file, imported, other, otherImports) => {
  const root = mkdtempSync(join(folder, 'tree-'));
  cpSync(join(project, '.dependency-cruiser.cjs'), join(root, '.dependency-cruiser.cjs'));
  cpSync(join(project, 'package.json'), join(root, 'package.json'));
  symlinkSync(join(project, 'node_modules'), join(root, 'node_modules'));
  plant(root, file, imported);
  if (other !== '') plant(root, other, otherImports);
  const bin = join(project, 'node_modules/dependency-cruiser/bin/dependency-cruiser.mjs');
  const roots = ['lib', 'functions', 'infra'].filter((name) => existsSync(join(root, name)));
  let output = '';
  try {
    execFileSync(process.execPath, [bin, '--config', '.dependency-cruiser.cjs', ...roots], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch (error) {
    output = String((error as { stdout?: string }).stdout);
  }
  expect(output).toContain(`error ${rule}`);
});
