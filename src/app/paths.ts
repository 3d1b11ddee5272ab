import { existsSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder with package.json: two levels up from the sources, three from dist/. */
function findRoot(): string {
  let folder = path.dirname(fileURLToPath(import.meta.url));
  while (!existsSync(path.join(folder, 'package.json'))) {
    const parent = path.dirname(folder);
    if (parent === folder) throw new Error('package.json of RelayOps not found');
    folder = parent;
  }
  return folder;
}

export const projectRoot = findRoot();

/** Where data of this installation belongs: the checkout, or the current folder when RelayOps is an installed package. */
export const homeRoot = projectRoot.split(path.sep).includes('node_modules') ? process.cwd() : projectRoot;

export function projectFile(...parts: string[]): string {
  return path.join(projectRoot, ...parts);
}
