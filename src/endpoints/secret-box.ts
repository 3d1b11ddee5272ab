import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';

const FORMAT = 1;
const KEY_ID_BYTES = 8;
const HEADER_BYTES = 1 + KEY_ID_BYTES;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

interface SealingKey {
  readonly id: Buffer;
  readonly key: Buffer;
}

/**
 * Encrypts signing secrets and header values at rest: AES-256-GCM, bound to the place where they belong, so that a row cannot be moved to another
 * endpoint. Sealed form: format (1 byte, 1), key ID (8), nonce (12), ciphertext, tag (16). Before there were key IDs it was nonce, ciphertext, tag;
 * that form still opens. (docs/adr/0014-sealed-form-and-canary.md)
 */
export class SecretBox {
  readonly #current: SealingKey;
  readonly #keys: readonly SealingKey[];

  /**
   * @param key 32 bytes in base64: seals and opens (`secrets.key`)
   * @param previousKeys open only (`secrets.previousKeys`)
   */
  constructor(key: string, previousKeys: readonly string[] = []) {
    this.#current = sealingKey(key, 'secrets.key');
    this.#keys = [this.#current, ...previousKeys.map((one) => sealingKey(one, 'secrets.previousKeys'))];
  }

  /** ID of the key that seals. It tells nothing of the key. */
  get keyId(): string {
    return this.#current.id.toString('hex');
  }

  /** @param place what the text belongs to: an endpoint's ID, for example; must be the same to open */
  seal(text: Uint8Array, place: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const header = headerOf(this.#current);
    const cipher = createCipheriv('aes-256-gcm', this.#current.key, nonce).setAAD(boundTo(place, header));
    return Buffer.concat([header, nonce, cipher.update(text), cipher.final(), cipher.getAuthTag()]);
  }

  /** @throws Error when no key fits, the row was tampered with, or it belongs to another place */
  open(sealed: Buffer, place: string): Buffer {
    const named = this.#keys.find((one) => isSealedBy(sealed, one));
    if (named) return decipher(named.key, sealed.subarray(HEADER_BYTES), boundTo(place, headerOf(named)));
    // The form before key IDs. By chance (1 in 256) it begins like today's.
    for (const { key } of this.#keys) {
      try {
        return decipher(key, sealed, boundTo(place));
      } catch {
        // Another key may fit.
      }
    }
    throw new Error(`cannot be opened with the configured keys (its key ID: ${keyIdOf(sealed)})`);
  }

  /** True when it has today's form under the key that seals. */
  isCurrent(sealed: Buffer): boolean {
    return isSealedBy(sealed, this.#current);
  }
}

/** ID of the key that sealed it, as the sealed form says. */
export function keyIdOf(sealed: Buffer): string {
  return sealed[0] === FORMAT
    ? sealed.subarray(1, HEADER_BYTES).toString('hex')
    : 'none, sealed before key IDs';
}

function sealingKey(text: string, name: string): SealingKey {
  const key = Buffer.from(text, 'base64');
  if (key.length !== 32) throw new Error(`${name} must be 32 bytes in base64`);
  const id = createHash('sha256').update('relayops sealing key ID').update(key).digest();
  return { id: id.subarray(0, KEY_ID_BYTES), key };
}

function headerOf({ id }: SealingKey): Buffer {
  return Buffer.concat([Buffer.of(FORMAT), id]);
}

function isSealedBy(sealed: Buffer, key: SealingKey): boolean {
  return sealed.subarray(0, HEADER_BYTES).equals(headerOf(key));
}

function boundTo(place: string, header: Buffer = Buffer.alloc(0)): Buffer {
  return Buffer.concat([header, Buffer.from(place)]);
}

function decipher(key: Buffer, sealed: Buffer, bound: Buffer): Buffer {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) throw new Error('too short to be sealed');
  const nonce = sealed.subarray(0, NONCE_BYTES);
  const tag = sealed.subarray(sealed.length - TAG_BYTES);
  // Without the length Node takes a shorter tag too, which is easier to forge.
  const opened = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(bound)
    .setAuthTag(tag);
  return Buffer.concat([
    opened.update(sealed.subarray(NONCE_BYTES, sealed.length - TAG_BYTES)),
    opened.final(),
  ]);
}

export function newSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/**
 * The bytes of the secret that somebody brought, or of a new one.
 * @throws Error when the text is no secret: the caller has checked it with `parseSecret`
 */
export function secretBytes(text: string | undefined): Buffer {
  if (text === undefined) return newSecret();
  const bytes = parseSecret(text);
  if (bytes === null) throw new Error('not a signing secret');
  return bytes;
}

/** `whsec_<base64>`: the form in which Standard Webhooks libraries take a secret. */
export function formatSecret(secret: Uint8Array): string {
  return PREFIX + Buffer.from(secret).toString('base64');
}

/** The bytes of a `whsec_…` text of 24 to 64 bytes (the range that Standard Webhooks allows), or null. */
export function parseSecret(text: string): Buffer | null {
  if (!text.startsWith(PREFIX)) return null;
  const base64 = text.slice(PREFIX.length);
  const bytes = Buffer.from(base64, 'base64');
  const canonical = bytes.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  return canonical && bytes.length >= 24 && bytes.length <= 64 ? bytes : null;
}
