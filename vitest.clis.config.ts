import { defineConfig } from 'vitest/config';

/** Real agent CLIs against a stub of the model APIs; .ci/clis.sh starts it without a network. */
export default defineConfig({
  test: {
    include: ['test/clis/**/*.test.ts'],
    testTimeout: 150_000,
    maxConcurrency: 2,
    silent: 'passed-only',
    reporters: ['default', './test/count-reporter.ts'],
  },
});
