module.exports = {
  forbidden: [
    { name: 't', severity: 'error', from: { path: '^lib/a' }, to: { path: '^lib/b' } },
    { name: 'n', severity: 'error', from: { path: '^lib/a' }, to: { path: '^(node:)?fs$' } },
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
};
