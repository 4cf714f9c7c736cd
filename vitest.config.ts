import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // have their own configuration
    exclude: ['test/image/**', 'test/deploy/**', 'test/workflow/**', 'test/clis/**'],
    globalSetup: './test/support/launcher-setup.ts',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
    silent: 'passed-only',
    reporters: ['default', './test/count-reporter.ts'],
  },
});
