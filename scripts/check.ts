// Everything that must hold before a change is taken, each under its name: all checks run, so that one look shows all that is wrong.
import { spawnSync } from 'node:child_process';
import path from 'node:path';

const checks: readonly (readonly [name: string, command: string, ...args: string[]])[] = [
  ['typecheck', 'tsc', '--noEmit'],
  ['lint', 'eslint', '.', '--max-warnings', '0'],
  ['format', 'prettier', '--check', '--log-level', 'warn', '.'],
  ['modules', 'node', 'scripts/check-modules.ts'],
  ['unused', 'knip'],
  ['docs', 'node', 'scripts/docs.ts', '--check'],
];

const root = path.dirname(import.meta.dirname);
const env = {
  ...process.env,
  PATH: path.join(root, 'node_modules', '.bin') + path.delimiter + (process.env['PATH'] ?? ''),
};
const failed: string[] = [];

for (const [name, command, ...args] of checks) {
  const started = performance.now();
  const run = spawnSync(command, args, {
    cwd: root,
    env,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    shell: process.platform === 'win32',
  });
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  const passed = run.status === 0;
  console.log(`${passed ? 'ok    ' : 'FAILED'}  ${name}  (${seconds} s)`);
  if (passed) continue;
  failed.push(name);
  console.log([run.stdout, run.stderr, run.error?.message ?? ''].filter(Boolean).join('\n'));
}

if (failed.length > 0) {
  console.log(`FAILED: ${failed.join(', ')}`);
  process.exitCode = 1;
}
