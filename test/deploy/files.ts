import { glob, readFile } from 'node:fs/promises';
import path from 'node:path';
import { parse } from 'yaml';

/** The project's root. */
export const root = path.join(import.meta.dirname, '..', '..');

export function read(file: string): Promise<string> {
  return readFile(path.join(root, file), 'utf8');
}

/** @returns the document, with `<<` merged as Compose does */
export async function readYaml<T>(file: string): Promise<T> {
  return parse(await read(file), { merge: true }) as T;
}

export async function readJson<T>(file: string): Promise<T> {
  return JSON.parse(await read(file)) as T;
}

/** Files that fit a pattern, from the root, in order. */
export async function list(pattern: string): Promise<string[]> {
  const found: string[] = [];
  for await (const file of glob(pattern, { cwd: root })) found.push(file.split(path.sep).join('/'));
  return found.sort();
}
