import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { keptDataDir, prepareDataDir } from '../platform/db/embedded.ts';
import { createOwn, isInitialised, readOwn, writeOwn } from '../platform/db/embedded-folder.ts';
import { homeRoot } from './paths.ts';

/** What the embedded default keeps beside its data, readable by its owner only: what a real installation gets from its environment. */
export interface EmbeddedSecrets {
  readonly jwtSecret: string;
  readonly secretsKey: string;
  /** API key of the demo tenant, and what the simulator needs to verify its endpoint. */
  readonly demo?: { readonly apiKey: string; readonly endpointId: string; readonly endpointSecret: string };
}

/** The folder of one embedded installation; a copy of it is the whole installation. */
export class EmbeddedHome {
  readonly dataDir: string;
  readonly #file: string;

  constructor(dataDir: string) {
    this.dataDir = dataDir || keptDataDir(homeRoot);
    this.#file = path.join(this.dataDir, 'secrets.json');
  }

  /** The kept secrets, made on first use. */
  async secrets(): Promise<EmbeddedSecrets> {
    await prepareDataDir(this.dataDir);
    const known = await this.known();
    if (known !== null) return known;
    const first = (await this.#formerSecrets()) ?? {
      jwtSecret: randomBytes(48).toString('base64url'),
      secretsKey: randomBytes(32).toString('base64'),
    };
    await createOwn(this.#file, asText(first));
    return (await this.known())!;
  }

  /** The kept secrets, or null; changes nothing. */
  async known(): Promise<EmbeddedSecrets | null> {
    const text = await readOwn(this.#file);
    return text === null ? null : (JSON.parse(text) as EmbeddedSecrets);
  }

  async keep(secrets: EmbeddedSecrets): Promise<void> {
    await writeOwn(this.#file, asText(secrets));
  }

  /**
   * Versions before kept the secrets beside the data folder, where all data folders of one place shared them. Data that is older than its
   * secrets takes a copy. The file stays: another data folder may need it. New data never takes it.
   */
  async #formerSecrets(): Promise<EmbeddedSecrets | null> {
    if (!(await isInitialised(this.dataDir))) return null;
    const text = await readOwn(path.join(path.dirname(path.resolve(this.dataDir)), 'secrets.json'));
    return text === null ? null : (JSON.parse(text) as EmbeddedSecrets);
  }
}

function asText(secrets: EmbeddedSecrets): string {
  return JSON.stringify(secrets, null, 2) + '\n';
}
