import { readFileSync } from 'node:fs';
import { projectFile } from './paths.ts';

/** Version of this build, from package.json. */
export const version = (JSON.parse(readFileSync(projectFile('package.json'), 'utf8')) as { version: string })
  .version;
