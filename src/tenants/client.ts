import { createHmac } from 'node:crypto';
import { clientOrigin } from '../platform/http/client-address.ts';
import type { Turn } from './fair-queue.ts';
import type { Principal } from './scopes.ts';

const BYTES = 16;

/** Keyed hashes of what is not stored or logged in clear: addresses of clients, e-mail addresses that were refused. */
export class Fingerprints {
  readonly #secret: string;

  constructor(secret: string) {
    this.#secret = secret;
  }

  /** Of the address, or of the /64 of an IPv6 address. */
  ofOrigin(address: string): Buffer {
    return this.#of('origin', clientOrigin(address));
  }

  ofEmail(email: string): string {
    return this.#of('email', email).toString('hex');
  }

  #of(kind: string, text: string): Buffer {
    return createHmac('sha256', this.#secret).update(`relayops ${kind} ${text}`).digest().subarray(0, BYTES);
  }
}

/** The share of hashing that a client without a credential has. */
export function turnOfClient(address: string, account: string): Turn {
  return { share: `address ${clientOrigin(address)}`, member: account };
}

/** The share of hashing that a tenant has. */
export function turnOfPrincipal({ tenantId, actor }: Pick<Principal, 'tenantId' | 'actor'>): Turn {
  return { share: `tenant ${tenantId}`, member: actor };
}
