import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { keptDataDir } from '../platform/db/embedded.ts';
import { homeRoot } from './paths.ts';

/** What the embedded default keeps beside its data, readable by its owner only: what a real installation gets from its environment. */
export interface EmbeddedSecrets {
  readonly jwtSecret: string;
  readonly secretsKey: string;
  /** API key of the demo tenant, and what the simulator needs to verify its endpoint. */
  readonly demo?: { readonly apiKey: string; readonly endpointId: string; readonly endpointSecret: string };
}

/** The folder of one embedded installation. */
export class EmbeddedHome {
  readonly dataDir: string;
  readonly #file: string;

  constructor(dataDir: string) {
    this.dataDir = dataDir || keptDataDir(homeRoot);
    this.#file = path.join(path.dirname(this.dataDir), 'secrets.json');
  }

  /** The kept secrets, made on first use. */
  async secrets(): Promise<EmbeddedSecrets> {
    const known = await readFile(this.#file, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null;
      throw error;
    });
    if (known !== null) return JSON.parse(known) as EmbeddedSecrets;
    const fresh = {
      jwtSecret: randomBytes(48).toString('base64url'),
      secretsKey: randomBytes(32).toString('base64'),
    };
    await this.keep(fresh);
    return fresh;
  }

  async keep(secrets: EmbeddedSecrets): Promise<void> {
    await mkdir(path.dirname(this.#file), { recursive: true });
    const draft = `${this.#file}.${process.pid}`;
    await writeFile(draft, JSON.stringify(secrets, null, 2) + '\n', { mode: 0o600 });
    await rename(draft, this.#file);
  }
}
