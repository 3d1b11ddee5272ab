import type { Database } from '../../platform/db/database.ts';
import { sleep } from '../../shared/abort.ts';
import { type EndpointId, isId } from '../../shared/ids.ts';

const CHANNEL = 'relayops_due';
/** NOTIFY takes at most 7,999 bytes; a UUID and a comma are 37. */
const MAX_IDS = 200;
const DEBOUNCE_MS = 10;
const RECONNECT_MS = 500;

export interface WakeupDeps {
  readonly database: Database;
  /** This process's name: its own notifications are ignored. */
  readonly instance: string;
  /** Null: too many to name, look at everything. */
  readonly onDue: (endpointIds: readonly EndpointId[] | null) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Tells other processes which endpoints have due work, and hears it from them. Notifications are sent from a transaction of their
 * own, gathered for some milliseconds: a NOTIFY inside the accepting transaction would take a database-wide lock at its commit.
 * Losing one costs time, nothing else: the sweep finds the work.
 */
export class Wakeups {
  readonly #deps: WakeupDeps;
  readonly #controller = new AbortController();
  #pending = new Set<EndpointId>();
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> = Promise.resolve();
  #listening: Promise<void> | undefined;
  readonly #firstTry = Promise.withResolvers<void>();
  #everListened = false;

  constructor(deps: WakeupDeps) {
    this.#deps = deps;
  }

  tell(endpointId: EndpointId): void {
    this.#pending.add(endpointId);
    this.#timer ??= setTimeout(() => this.#flush(), DEBOUNCE_MS);
  }

  /** Starts listening, for ever. Resolves when the first connection listens, or could not be made. */
  async listen(): Promise<void> {
    this.#listening ??= this.#listenForever(this.#controller.signal);
    await this.#firstTry.promise;
  }

  async close(): Promise<void> {
    this.#controller.abort();
    if (this.#timer) this.#flush();
    await this.#sending;
    await this.#listening;
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const ids = [...this.#pending];
    this.#pending = new Set();
    const payload = `${this.#deps.instance}|${ids.length > MAX_IDS ? '*' : ids.join(',')}`;
    this.#sending = this.#sending
      .then(() => this.#deps.database.delivery.query('SELECT pg_notify($1, $2)', [CHANNEL, payload]))
      .then(() => undefined, this.#deps.onError);
  }

  async #listenForever(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const client = this.#deps.database.dedicatedClient();
      try {
        await this.#listenOnce(client, signal);
      } catch (error) {
        if (!signal.aborted) this.#deps.onError(error);
      }
      this.#firstTry.resolve();
      // An end that fails means that the connection is gone already, which is what we want.
      await client.end().catch(() => undefined);
      await sleep(RECONNECT_MS, signal);
    }
  }

  async #listenOnce(client: ReturnType<Database['dedicatedClient']>, signal: AbortSignal): Promise<void> {
    const ended = new Promise<void>((resolve, reject) => {
      client.on('error', reject);
      client.on('end', resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    client.on('notification', (message) => this.#heard(message.payload ?? ''));
    await Promise.race([client.connect().then(() => client.query(`LISTEN ${CHANNEL}`)), ended]);
    // Whatever happened while nobody listened: look at everything once. At the start that is done anyway.
    if (this.#everListened) this.#deps.onDue(null);
    this.#everListened = true;
    this.#firstTry.resolve();
    await ended;
  }

  #heard(payload: string): void {
    const [instance, list = ''] = payload.split('|', 2);
    if (instance === this.#deps.instance) return;
    this.#deps.onDue(list === '*' ? null : (list.split(',').filter(isId) as EndpointId[]));
  }
}
