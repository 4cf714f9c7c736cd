import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/image/**/*.test.ts', 'test/deploy/**/*.test.ts'],
    globalSetup: './test/image/setup.ts',
    testTimeout: 120_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    reporters: ['default', './test/count-reporter.ts'],
  },
});
