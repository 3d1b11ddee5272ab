// Makes dist/, which the package brings: src/ and sdk/ as JavaScript, without their tests. Migrations lie beside dist/ as they are.
import { spawnSync } from 'node:child_process';
import { copyFile, glob, rm } from 'node:fs/promises';
import path from 'node:path';

process.chdir(path.dirname(import.meta.dirname));

await rm('dist', { recursive: true, force: true });
const tsc = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  stdio: 'inherit',
});
if (tsc.status !== 0) process.exit(tsc.status ?? 1);

// The compiler makes no declaration of what is one already.
await copyFile('sdk/openapi.d.ts', 'dist/sdk/openapi.d.ts');
// The package exports sdk/ alone, so nobody can see the types of the rest.
for await (const file of glob('dist/src/**/*.d.ts')) await rm(file);
