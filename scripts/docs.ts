// Writes the documents that are made from the code. With --check it fails when a committed one differs from what it would write, or when
// a written one links to a file that is not there.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { configurationPage, environmentExample } from './docs/configuration.ts';
import { errorsPage } from './docs/errors.ts';
import { brokenLinks } from './docs/links.ts';
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
else {
  const broken = await brokenLinks(root);
  if (stale.length > 0)
    console.error(`Not what the code says: ${stale.join(', ')}. Run \`npm run docs\` and commit the result.`);
  for (const link of broken) console.error(`Links to nothing: ${link}`);
  if (stale.length > 0 || broken.length > 0) process.exitCode = 1;
}
