import { createHash } from 'node:crypto';

/** A Lua script that Redis runs as one atomic step. */
export interface Script {
  readonly lua: string;
  /** By which Redis knows the script once it has seen it. */
  readonly sha1: string;
}

export function defineScript(lua: string): Script {
  return { lua, sha1: createHash('sha1').update(lua).digest('hex') };
}
