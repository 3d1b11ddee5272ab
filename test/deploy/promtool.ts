import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findTool } from './debian-tool.ts';

const run = promisify(execFile);
const LIMIT_MS = 120_000;

/** Prometheus' own checker. Null where it cannot be had. */
export async function findPromtool(): Promise<string | null> {
  const found = await findTool({ program: 'promtool', debian: 'prometheus', folder: 'usr/bin' });
  return found?.file ?? null;
}

/** @throws with what promtool says when it finds something wrong */
export async function promtool(program: string, args: readonly string[]): Promise<string> {
  try {
    return (await run(program, args, { timeout: LIMIT_MS })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`promtool ${args.join(' ')}:\n${stdout}${stderr}`, { cause: error });
  }
}
