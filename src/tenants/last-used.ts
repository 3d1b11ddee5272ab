import type { FastifyBaseLogger } from 'fastify';
import type { Queryable } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import type { ApiKeyId, TenantId } from '../shared/ids.ts';
import { touchApiKeys } from './api-key.sql.ts';

/** `last_used_at` is exact to a minute. */
const INTERVAL_MS = 60_000;
/** How long uses are gathered for one statement. */
const GATHER_MS = 5_000;
/** Over this many keys in a minute further ones are not noted until the next. */
const MAX_KEYS = 50_000;
const MAX_KEYS_PER_STATEMENT = 1_000;

/**
 * Notes in the background when API keys were last used: at most once a minute a key, many keys a statement. A failure is logged
 * and forgotten; the next use after a minute tries again.
 */
export class LastUsed {
  readonly #db: Queryable;
  readonly #clock: Clock;
  readonly #logger: Pick<FastifyBaseLogger, 'warn'>;
  readonly #nextAt = new Map<ApiKeyId, number>();
  #pending: { readonly tenantId: TenantId; readonly apiKeyId: ApiKeyId }[] = [];
  #timer: NodeJS.Timeout | undefined;
  #flushing: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(db: Queryable, clock: Clock, logger: Pick<FastifyBaseLogger, 'warn'>) {
    this.#db = db;
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Called for every request with an API key, so it is one look into a map, nearly always. */
  note(tenantId: TenantId, apiKeyId: ApiKeyId): void {
    const now = this.#clock.now();
    const nextAt = this.#nextAt.get(apiKeyId);
    if (nextAt !== undefined && now < nextAt) return;
    if (this.#closed || (nextAt === undefined && this.#nextAt.size >= MAX_KEYS)) return;
    this.#nextAt.set(apiKeyId, now + INTERVAL_MS);
    this.#pending.push({ tenantId, apiKeyId });
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS).unref();
  }

  /** Writes what was gathered. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#pending;
    this.#pending = [];
    this.#forgetOld();
    this.#flushing = this.#flushing.then(() => this.#write(batch));
    return this.#flushing;
  }

  /** Writes what is left and stops the timer. Notes after it are ignored. */
  close(): Promise<void> {
    this.#closed = true;
    return this.flush();
  }

  async #write(batch: readonly { tenantId: TenantId; apiKeyId: ApiKeyId }[]): Promise<void> {
    try {
      for (let from = 0; from < batch.length; from += MAX_KEYS_PER_STATEMENT) {
        const part = batch.slice(from, from + MAX_KEYS_PER_STATEMENT);
        await touchApiKeys(
          this.#db,
          part.map((use) => use.tenantId),
          part.map((use) => use.apiKeyId),
        );
      }
    } catch (error) {
      this.#logger.warn({ err: error, keys: batch.length }, 'last use of API keys was not noted');
    }
  }

  #forgetOld(): void {
    const now = this.#clock.now();
    for (const [apiKeyId, nextAt] of this.#nextAt) if (nextAt <= now) this.#nextAt.delete(apiKeyId);
  }
}
