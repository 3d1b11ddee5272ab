import type { Database } from '../platform/db/database.ts';
import { sleep, within } from '../shared/abort.ts';
import { type EndpointId, isId } from '../shared/ids.ts';

const CHANNEL = 'relayops_due';
/** NOTIFY takes at most 7,999 bytes; a UUID and a comma are 37. */
const MAX_IDS = 200;
const DEBOUNCE_MS = 20;
const RECONNECT_MS = 500;
const END_MS = 2_000;

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
  #isSending = false;
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
    await this.#sending;
    clearTimeout(this.#timer);
    await this.#listening;
  }

  /** One notification is under way at a time; what comes meanwhile waits for the next. */
  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isSending || this.#pending.size === 0) return;
    const ids = [...this.#pending];
    this.#pending = new Set();
    const payload = `${this.#deps.instance}|${ids.length > MAX_IDS ? '*' : ids.join(',')}`;
    this.#isSending = true;
    this.#sending = this.#deps.database.delivery
      .query('SELECT pg_notify($1, $2)', [CHANNEL, payload])
      .then(() => undefined, this.#deps.onError)
      .then(() => {
        this.#isSending = false;
        if (this.#pending.size > 0) this.#timer ??= setTimeout(() => this.#flush(), DEBOUNCE_MS);
      });
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
      // An end that fails means that the connection is gone already, which is what we want; one that hangs is left behind.
      await within(
        END_MS,
        client.end().catch(() => undefined),
      );
      await sleep(RECONNECT_MS, signal);
    }
  }

  async #listenOnce(client: ReturnType<Database['dedicatedClient']>, signal: AbortSignal): Promise<void> {
    const { promise: ended, resolve, reject } = Promise.withResolvers<void>();
    const onAbort = (): void => resolve();
    client.on('error', reject);
    client.on('end', resolve);
    signal.addEventListener('abort', onAbort, { once: true });
    const done = (): void => signal.removeEventListener('abort', onAbort);
    ended.then(done, done);
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
