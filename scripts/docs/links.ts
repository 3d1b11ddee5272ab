import { existsSync } from 'node:fs';
import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';

/** Links of the written documents to files that are not there, as `document: link`. */
export async function brokenLinks(root: string): Promise<string[]> {
  const broken: string[] = [];
  for await (const file of glob(['*.md', 'docs/**/*.md', 'examples/**/*.md', 'deploy/*.md'], { cwd: root })) {
    const text = await readFile(path.join(root, file), 'utf8');
    for (const [, target = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:|^#/.test(target)) continue;
      const linked = path.join(root, path.dirname(file), decodeURIComponent(target.split('#', 1)[0]!));
      if (!existsSync(linked)) broken.push(`${file}: ${target}`);
    }
  }
  return broken;
}
