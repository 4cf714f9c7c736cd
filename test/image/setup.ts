/** Builds the image before its tests, unless IMAGE names one that is there already. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { runOnce } from '../support/containers.ts';

declare module 'vitest' {
  interface ProvidedContext {
    image: string;
  }
}

const project = join(import.meta.dirname, '..', '..');

export default async function setup({ provide }: TestProject): Promise<void> {
  const script = (name: string): string =>
    execFileSync(join(project, '.ci', name), {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    }).trim();
  script('s3-server.sh');
  const image = process.env.IMAGE || script('image.sh');
  const works = await runOnce(image, 'true').catch((error: Error) => error);
  if (works instanceof Error) throw new Error(`podman cannot run ${image} on this machine: ${works.message}`);
  provide('image', image);
}
