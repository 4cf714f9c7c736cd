import type { Reporter, TestModule } from 'vitest/node';

/** Prints the closing line that CI reads: `N passed, N failed`. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: ReadonlyArray<TestModule>): void {
    let passed = 0;
    let failed = 0;
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        if (test.result().state === 'passed') passed++;
        else failed++;
      }
      if (module.children.size === 0 || module.errors().length > 0) failed++;
    }
    process.stdout.write(`\n${passed} passed, ${failed} failed\n`);
  }
}
