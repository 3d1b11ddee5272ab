// Sums vitest's JSON reports for .ci/run: prints "passed failed skipped". Runs on any Node from 20 on. A report that is missing, and
// a file that failed before its first test, count as one failure each, so that nothing that did not run looks as if it had passed.
//
//   node scripts/ci-counts.mjs report.json ...
import { existsSync, readFileSync } from 'node:fs';

let passed = 0;
let failed = 0;
let skipped = 0;

for (const file of process.argv.slice(2)) {
  const report = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : null;
  if (report === null || report.numTotalTests === 0) {
    failed += 1;
    continue;
  }
  passed += report.numPassedTests;
  failed += report.numFailedTests;
  skipped += report.numPendingTests + report.numTodoTests;
  for (const { status, assertionResults } of report.testResults) {
    if (status === 'failed' && !assertionResults.some((result) => result.status === 'failed')) failed += 1;
  }
  // An unhandled error outside of all tests.
  if (!report.success && failed === 0) failed += 1;
}

console.log(`${passed} ${failed} ${skipped}`);
