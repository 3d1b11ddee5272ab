import type { FastifyBaseLogger } from 'fastify';
import type { Clock } from '../shared/clock.ts';
import { Buckets } from './buckets.ts';
import { emailTaken, emailTriesThrottled } from './tenants.errors.ts';

/** Addresses that were taken: ten at once, then one a minute by a caller; twice as many by a tenant. */
const PER_CALLER = { capacity: 10, refillMs: 60_000 };
const PER_TENANT = { capacity: 20, refillMs: 30_000 };
/** Callers and tenants exist in the database; one has an entry for ten minutes after a refusal. */
const MAX_KEYS = 16_384;

/** Who tries an address: a user or key of a tenant, or a client with a bootstrap token. */
export interface EmailAsker {
  readonly caller: string;
  readonly tenant: string;
}

export interface EmailTriesOptions {
  /** A monotonic one. */
  readonly clock: Clock;
  readonly logger: Pick<FastifyBaseLogger, 'warn'>;
  /** A keyed hash, so that the log shows that two tries were for one address and not for which. */
  readonly fingerprintOf: (text: string) => string;
}

/**
 * An address belongs to one user of the installation, so refusing it tells that somebody has it. This bounds how many addresses
 * anybody can ask about, and logs each. It lives in this process.
 */
export class EmailTries {
  readonly #options: EmailTriesOptions;
  readonly #callers: Buckets;
  readonly #tenants: Buckets;

  constructor(options: EmailTriesOptions) {
    this.#options = options;
    this.#callers = new Buckets(options.clock, PER_CALLER, MAX_KEYS);
    this.#tenants = new Buckets(options.clock, PER_TENANT, MAX_KEYS);
  }

  /**
   * Runs `add`, which says undefined when the address is taken. A try counts from its start, so that many at once do not slip through.
   * @throws EMAIL_TAKEN; EMAIL_TRIES_THROTTLED with the seconds to wait, before anything is looked up
   */
  async run<T>(asker: EmailAsker, email: string, add: () => Promise<T | undefined>): Promise<T> {
    const waitMs = Math.max(this.#callers.waitMs(asker.caller), this.#tenants.waitMs(asker.tenant));
    if (waitMs > 0) throw emailTriesThrottled({ retryAfterSeconds: Math.ceil(waitMs / 1000) });
    this.#callers.take(asker.caller);
    this.#tenants.take(asker.tenant);
    let isTaken = false;
    try {
      const added = await add();
      if (added !== undefined) return added;
      isTaken = true;
    } finally {
      if (!isTaken) this.#giveBack(asker);
    }
    this.#log(asker, email);
    throw emailTaken();
  }

  #giveBack({ caller, tenant }: EmailAsker): void {
    this.#callers.giveBack(caller);
    this.#tenants.giveBack(tenant);
  }

  #log({ caller, tenant }: EmailAsker, email: string): void {
    const emailDomain = email.slice(email.lastIndexOf('@') + 1);
    const emailFingerprint = this.#options.fingerprintOf(email);
    this.#options.logger.warn(
      { tenant, caller, email_domain: emailDomain, email_fingerprint: emailFingerprint },
      'an e-mail address was refused because it is in use',
    );
  }
}
