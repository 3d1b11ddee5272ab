// Makes dist/, which is what the package brings: JavaScript and declarations of src/ and sdk/ without their tests.
import { spawnSync } from 'node:child_process';
import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { glob } from 'node:fs/promises';
import path from 'node:path';

const root = path.dirname(import.meta.dirname);
process.chdir(root);

await rm('dist', { recursive: true, force: true });
const tsc = spawnSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  stdio: 'inherit',
});
if (tsc.status !== 0) process.exit(tsc.status ?? 1);

// tsc emits no declaration for what is a declaration already.
await copyFile('sdk/openapi.d.ts', 'dist/sdk/openapi.d.ts');
