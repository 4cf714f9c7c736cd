/** Who may import whom; docs/architecture.md has the picture, test/import-rules.test.ts proves each rule. */
const layer = (name, from, forbidden) => ({
  name,
  severity: 'error',
  from: { path: from },
  to: { path: forbidden },
});

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    layer('lib-knows-no-entry', '^lib/', '^(cli|functions|infra|bench|test)/'),
    layer(
      'lib-knows-no-platform',
      '^lib/',
      'node_modules/(@middy|aws-cdk-lib|constructs|@types/aws-lambda|commander)',
    ),
    layer('errors-are-the-floor', '^lib/errors', '^lib/'),
    layer('json-stands-on-errors', '^lib/(json|clock)[.-]', '^lib/(?!errors|json)'),
    layer('task-and-config-stand-on-json', '^lib/(task|config)\\.', '^lib/(?!errors|json|task)'),
    layer('blueprint-knows-no-layer-above', '^lib/blueprint/', '^lib/(?!blueprint/|errors|json|task)'),
    layer('flow-knows-only-blueprint', '^lib/flow/', '^lib/(?!flow/|blueprint/|errors|json|task)'),
    layer('worker-knows-no-store', '^lib/worker/', '^lib/(store|flow)/|^lib/(attempt|run|validate|settle)'),
    layer(
      'store-knows-no-worker',
      '^lib/store/',
      '^lib/(worker|flow|blueprint)/|^lib/(attempt|run|validate|settle)',
    ),
    {
      name: 'blueprint-and-flow-are-pure',
      severity: 'error',
      from: { path: '^lib/(blueprint|flow)/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'one-door-to-processes',
      severity: 'error',
      from: { path: '^lib/', pathNot: '^lib/worker/(starter|launcher)\\.ts$' },
      to: { path: '^(node:)?child_process$' },
    },
    {
      name: 'one-door-to-s3',
      severity: 'error',
      from: { pathNot: '^(lib/store/s3|test/)' },
      to: { path: 'node_modules/@aws-sdk/client-s3' },
    },
    layer('functions-see-lib-only', '^functions/', '^(cli|infra|bench|test)/'),
    layer(
      'infra-sees-config-and-errors-only',
      '^infra/',
      '^(cli|functions|bench|test)/|^lib/(?!config\\.|errors\\.)',
    ),
  ],
  options: {
    parser: 'swc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
};
