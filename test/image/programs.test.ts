import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { shell, taskOf } from '../support/attempts.ts';
import { resultOf, spawnImage } from '../support/spawn-image.ts';

const { make } = spawnImage();
const script = join(import.meta.dirname, '..', '..', '.ci', 'image.sh');

test('a build argument adds a Debian program and one from npm for children', async () => {
  const image = 'localhost/stepspawn:programs';
  const added = ['--build-arg', 'APT_PACKAGES=jq', '--build-arg', 'NPM_PACKAGES=semver@7'];
  await promisify(execFile)(script, added, { env: { ...process.env, IMAGE: image } });
  const lambda = make({ image });
  const told = shell('jq -n "[1, 2] | add"; semver 1.2.3 -i minor');
  expect(resultOf(await lambda.invoke(taskOf(told)))).toMatchObject({
    ok: true,
    value: { raw: '3\n1.3.0', stderr: '' },
  });
}, 300_000);
