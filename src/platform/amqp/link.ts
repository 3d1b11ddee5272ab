import { type Channel, type ChannelModel, connect } from 'amqplib';
import { sleep, within } from '../../shared/abort.ts';

export type { Channel, ChannelModel, ConfirmChannel, ConsumeMessage } from 'amqplib';

export interface AmqpLinkOptions {
  /** amqp:// or amqps:// URL. */
  readonly url: string;
  /** Shown in the broker's list of connections. */
  readonly name: string;
  readonly heartbeatS: number;
  /**
   * Runs on each new connection: opens channels, declares what they need. The connection lives as long as all channels that it
   * returns do: an error on one of them starts everything anew.
   */
  readonly setup: (connection: ChannelModel) => Promise<readonly Channel[]>;
  readonly onUp: () => void;
  /** The connection that was up is gone, with everything that was under way on it. */
  readonly onDown: () => void;
  readonly onError: (error: Error) => void;
}

const CONNECT_TIMEOUT_MS = 10_000;
const CLOSE_TIMEOUT_MS = 2_000;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** One connection to a broker, kept up for ever: whatever ends it, another one is made after a pause that grows to five seconds. */
export class AmqpLink {
  readonly #options: AmqpLinkOptions;
  readonly #controller = new AbortController();
  #connection: ChannelModel | undefined;
  #giveUp: ((reason: Error) => void) | undefined;
  #isUp = false;
  #running: Promise<void> | undefined;

  constructor(options: AmqpLinkOptions) {
    this.#options = options;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Present while it is up. */
  get connection(): ChannelModel | undefined {
    return this.#isUp ? this.#connection : undefined;
  }

  start(): void {
    this.#running ??= this.#keepUp(this.#controller.signal);
  }

  /** Gives the connection up because of `reason`, and makes another. */
  restart(reason: Error): void {
    this.#giveUp?.(reason);
  }

  async close(): Promise<void> {
    this.#controller.abort();
    this.restart(new Error('closing'));
    await this.#running;
  }

  async #keepUp(signal: AbortSignal): Promise<void> {
    let pauseMs = FIRST_PAUSE_MS;
    while (!signal.aborted) {
      try {
        await this.#live(signal, () => (pauseMs = FIRST_PAUSE_MS));
      } catch (error) {
        if (!signal.aborted) this.#options.onError(error as Error);
      }
      await sleep(pauseMs * (0.5 + Math.random() / 2), signal);
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
    }
  }

  /** From connecting to the end of the connection. @throws what ended it */
  async #live(signal: AbortSignal, onSuccess: () => void): Promise<void> {
    const { url, name, heartbeatS, setup, onUp, onDown } = this.#options;
    const socket = new AbortController();
    const cut = (): void => socket.abort();
    signal.addEventListener('abort', cut, { once: true });
    const socketOptions = {
      timeout: CONNECT_TIMEOUT_MS,
      noDelay: true,
      keepAlive: true,
      clientProperties: { connection_name: name },
      // Handed on to Node, which knows it; the library's types do not.
      signal: socket.signal,
    };
    const connection = await connect(withHeartbeat(url, heartbeatS), socketOptions).finally(() =>
      signal.removeEventListener('abort', cut),
    );
    const { promise: ended, reject: endBy } = Promise.withResolvers<never>();
    ended.catch(() => undefined);
    connection.on('error', endBy);
    connection.on('close', (error?: Error) => endBy(error ?? new Error('the connection was closed')));
    this.#connection = connection;
    this.#giveUp = endBy;
    if (signal.aborted) endBy(new Error('closing'));
    try {
      const channels = await Promise.race([setup(connection), ended]);
      for (const channel of channels) {
        channel.on('error', endBy);
        channel.on('close', () => endBy(new Error('a channel was closed')));
      }
      this.#isUp = true;
      onSuccess();
      onUp();
      await ended;
    } finally {
      this.#connection = undefined;
      this.#giveUp = undefined;
      if (this.#isUp) {
        this.#isUp = false;
        onDown();
      }
      await end(connection, cut);
    }
  }
}

/**
 * Closes in order when the broker answers. When it does not, or did not before (a heartbeat that was missed ends only our half of the
 * socket), the socket is cut off: it would keep a process from ending.
 */
async function end(connection: ChannelModel, cut: () => void): Promise<void> {
  let isClosed = false;
  const closing = connection.close().then(
    () => (isClosed = true),
    () => undefined,
  );
  await within(CLOSE_TIMEOUT_MS, closing);
  if (!isClosed) cut();
}

function withHeartbeat(url: string, heartbeatS: number): string {
  const parsed = new URL(url);
  parsed.searchParams.set('heartbeat', String(heartbeatS));
  return parsed.href;
}
