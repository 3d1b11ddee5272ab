import { hash, randomBytes } from 'node:crypto';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** Largest multiple of 62 below 256: bytes from here on are thrown away, else the first letters would come up more often. */
const FAIR_BYTES = 248;

const PREFIX_LENGTH = 8;
/** 43 letters of base 62 are 256 bits, so one round of SHA-256 is enough to store them: there is nothing to guess. */
const SECRET_LENGTH = 43;
const API_KEY = /^rok_[0-9A-Za-z]{8}_[0-9A-Za-z]{32,128}$/;

/** A new API key and the part of it that lists show. The key itself is shown once and kept only as its digest. */
export function mintApiKey(): { readonly key: string; readonly prefix: string } {
  const prefix = `rok_${randomBase62(PREFIX_LENGTH)}`;
  return { key: `${prefix}_${randomBase62(SECRET_LENGTH)}`, prefix };
}

/** False for text that cannot be one of our API keys, so that it costs no look-up. */
export function isApiKeyShaped(text: string): boolean {
  return API_KEY.test(text);
}

const TOKEN_PREFIXES = { refresh: 'rrt', bootstrap: 'rbt', reset: 'rpt' } as const;

/** A new opaque token of 256 random bits. The kind in front lets secret scanners and people tell them apart. */
export function mintToken(kind: keyof typeof TOKEN_PREFIXES): string {
  return `${TOKEN_PREFIXES[kind]}_${randomBytes(32).toString('base64url')}`;
}

/** SHA-256 as stored in `*_hash` columns. */
export function digestOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** The same digest as text, for keys of maps. */
export function digestTextOf(secret: string): string {
  return hash('sha256', secret, 'hex');
}

function randomBase62(length: number): string {
  let text = '';
  while (text.length < length) {
    for (const byte of randomBytes(length)) {
      if (byte < FAIR_BYTES && text.length < length) text += BASE62[byte % BASE62.length];
    }
  }
  return text;
}
