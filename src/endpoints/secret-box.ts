import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SECRET_BYTES = 32;
const PREFIX = 'whsec_';

/** Encrypts signing secrets at rest: AES-256-GCM, bound to the endpoint's ID, so that a row cannot be moved to another endpoint. */
export class SecretBox {
  readonly #key: Buffer;

  /** @param key 32 bytes in base64 (`secrets.key`) */
  constructor(key: string) {
    this.#key = Buffer.from(key, 'base64');
    if (this.#key.length !== 32) throw new Error('secrets.key must be 32 bytes in base64');
  }

  seal(secret: Uint8Array, endpointId: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce).setAAD(Buffer.from(endpointId));
    return Buffer.concat([nonce, cipher.update(secret), cipher.final(), cipher.getAuthTag()]);
  }

  /** @throws when the key is another one or the row was tampered with */
  open(sealed: Buffer, endpointId: string): Buffer {
    const nonce = sealed.subarray(0, NONCE_BYTES);
    const tag = sealed.subarray(sealed.length - TAG_BYTES);
    // Without the length Node takes a shorter tag too, which is easier to forge.
    const decipher = createDecipheriv('aes-256-gcm', this.#key, nonce, { authTagLength: TAG_BYTES })
      .setAAD(Buffer.from(endpointId))
      .setAuthTag(tag);
    return Buffer.concat([
      decipher.update(sealed.subarray(NONCE_BYTES, sealed.length - TAG_BYTES)),
      decipher.final(),
    ]);
  }
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
