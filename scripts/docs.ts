// Writes the documents that are made from the code, or with --check fails when a committed one differs from what it would write.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { configurationPage, environmentExample } from './docs/configuration.ts';
import { errorsPage } from './docs/errors.ts';
import { metricsPage } from './docs/metrics.ts';
import { describeApi, typesOfApi } from './docs/openapi.ts';

const root = path.dirname(import.meta.dirname);

async function made(): Promise<Record<string, string>> {
  const api = await describeApi();
  return {
    'docs/configuration.md': configurationPage(),
    '.env.example': environmentExample(),
    'docs/errors.md': errorsPage(),
    'docs/metrics.md': metricsPage(),
    'docs/openapi.json': JSON.stringify(api, null, 2) + '\n',
    'sdk/openapi.d.ts': await typesOfApi(api),
  };
}

async function committed(file: string): Promise<string | null> {
  return readFile(path.join(root, file), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
}

const checkOnly = process.argv.includes('--check');
const stale: string[] = [];
for (const [file, text] of Object.entries(await made())) {
  if ((await committed(file)) === text) continue;
  stale.push(file);
  if (checkOnly) continue;
  await mkdir(path.dirname(path.join(root, file)), { recursive: true });
  await writeFile(path.join(root, file), text);
}

if (!checkOnly) console.log(stale.length === 0 ? 'Nothing had changed.' : `Written: ${stale.join(', ')}`);
else if (stale.length > 0) {
  console.error(`Not what the code says: ${stale.join(', ')}. Run \`npm run docs\` and commit the result.`);
  process.exitCode = 1;
}
