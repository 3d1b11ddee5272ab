// Checks .dependency-cruiser.cjs. A run that read next to nothing is a failure too: with a compiler that it does not know,
// dependency-cruiser reads no TypeScript and reports that all is well.
import { createRequire } from 'node:module';
import path from 'node:path';
import { cruise, type IConfiguration, type ICruiseResult } from 'dependency-cruiser';

const LEAST_MODULES = 50;
const LEAST_ARROWS = 200;
const root = path.dirname(import.meta.dirname);
process.chdir(root);

const { options = {}, ...ruleSet } = createRequire(import.meta.url)(
  '../.dependency-cruiser.cjs',
) as IConfiguration;
const { output } = await cruise(['src', 'sdk', 'test', 'scripts'], { ...options, ruleSet, validate: true });
const { modules, summary } = output as ICruiseResult;

const ours = modules.filter((module) => /^(src|sdk|test|scripts)\/.*\.ts$/.test(module.source));
const arrows = ours.reduce((sum, module) => sum + module.dependencies.length, 0);
for (const { rule, from, to, cycle } of summary.violations) {
  const way = cycle ? [from, ...cycle.map((step) => step.name)].join(' → ') : `${from} → ${to}`;
  console.error(`${rule.severity} ${rule.name}: ${way}`);
}
console.error(`${ours.length} modules, ${arrows} imports, ${summary.violations.length} violations`);
if (ours.length < LEAST_MODULES || arrows < LEAST_ARROWS) {
  console.error(`Fewer than ${LEAST_MODULES} modules or ${LEAST_ARROWS} imports: the sources were not read.`);
  process.exitCode = 1;
}
if (summary.error > 0) process.exitCode = 1;
