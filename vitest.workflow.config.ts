import { defineConfig } from 'vitest/config';

/** Whole runs under an interpreter of the workflow language, with the bundled functions and a real S3 server. */
export default defineConfig({
  test: {
    include: ['test/workflow/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    maxWorkers: 2,
    silent: 'passed-only',
    reporters: ['default', './test/count-reporter.ts'],
  },
});
