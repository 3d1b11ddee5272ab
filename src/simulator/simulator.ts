import { once } from 'node:events';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../shared/clock.ts';
import { Control, type ReceiverSettings, configure, orProblems } from './control.ts';
import type { LedgerRow } from './delivery-ledger.ts';
import { Intake } from './intake.ts';
import type { Receiver, ReceiverSummary } from './receiver.ts';
import { Receivers } from './receivers.ts';
import type { ShownRequest } from './request-log.ts';

export interface SimulatorOptions {
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: a free one. */
  readonly port?: number;
  /** Check signatures of receivers that have secrets. Default true. */
  readonly verify?: boolean;
  /** Requests kept in the log of each receiver, 0 for none. Default 1,000. */
  readonly keep?: number;
  /**
   * Deliveries that all ledgers together hold: about 250 bytes each, so the default of 2,000,000 takes up to 500 MB. Requests of
   * further deliveries are answered and counted as `untracked`.
   */
  readonly maxDeliveries?: number;
  /** Default 10,000. */
  readonly maxReceivers?: number;
  readonly clock?: Clock;
}

/** One receiver, seen from the same process. Over HTTP the same is under `/receivers/<name>`. */
export interface SimulatedReceiver {
  readonly name: string;
  /** Where its deliveries go. */
  readonly url: string;
  /** @throws SettingsError naming every setting that makes no sense */
  configure(settings: ReceiverSettings): void;
  summary(): ReceiverSummary;
  requests(page?: { readonly after?: number; readonly limit?: number }): ShownRequest[];
  deliveries(page?: { readonly after?: number; readonly limit?: number }): LedgerRow[];
  /**
   * Waits until its counts fit, looking at them after each request and each answer.
   * @throws Error with the counts, after `timeoutMs` (default 10,000) or when the simulator closes
   */
  until(fits: (summary: ReceiverSummary) => boolean, timeoutMs?: number): Promise<ReceiverSummary>;
  reset(): void;
}

/** A running simulator. */
export interface Simulator {
  /** Without a slash at the end. */
  readonly url: string;
  /** Makes the receiver when it is new. @throws RangeError for a name that is none, or one too many */
  receiver(name: string): SimulatedReceiver;
  /** Closes all connections, at once. May be called again. */
  close(): Promise<void>;
}

const DEFAULT_KEEP = 1_000;
const DEFAULT_MAX_DELIVERIES = 2_000_000;
const DEFAULT_MAX_RECEIVERS = 10_000;
const DEFAULT_UNTIL_MS = 10_000;
const DEFAULT_REQUESTS_LIMIT = 1_000;
const DEFAULT_DELIVERIES_LIMIT = 10_000;
const MAX_CONNECTIONS = 20_000;
/** Longer than clients keep their sockets, so that no request meets a closing one. */
const KEEP_ALIVE_MS = 65_000;

/** Starts a simulator and resolves when it listens. */
export async function startSimulator(options: SimulatorOptions = {}): Promise<Simulator> {
  const { host = '127.0.0.1', port = 0, verify = true, keep = DEFAULT_KEEP, clock = systemClock } = options;
  const budget = { left: options.maxDeliveries ?? DEFAULT_MAX_DELIVERIES };
  const receivers = new Receivers(
    { keep, verify, clock, budget },
    options.maxReceivers ?? DEFAULT_MAX_RECEIVERS,
  );
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, router(receivers));
  server.maxConnections = MAX_CONNECTIONS;
  server.listen(port, host);
  await once(server, 'listening');
  const url = urlOf(server);
  const closing = new AbortController();
  let closed: Promise<void> | undefined;
  return {
    url,
    receiver: (name) => {
      const receiver = receivers.named(name);
      if (!receiver) throw new RangeError(`"${name}" cannot be a receiver`);
      return simulated(receiver, `${url}/r/${name}`, closing.signal);
    },
    close: () => {
      closing.abort();
      return (closed ??= closeServer(server));
    },
  };
}

function router(receivers: Receivers): (request: IncomingMessage, response: ServerResponse) => void {
  const intake = new Intake(receivers);
  const control = new Control(receivers);
  return (request, response) => {
    const part = request.url?.startsWith('/r/') ? intake : control;
    orProblems(response, () => part.handle(request, response));
  };
}

function urlOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

async function closeServer(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeAllConnections();
  await closed;
}

function simulated(receiver: Receiver, url: string, closing: AbortSignal): SimulatedReceiver {
  return {
    name: receiver.name,
    url,
    configure: (settings) => configure(receiver, settings),
    summary: () => receiver.summary(),
    requests: ({ after = -1, limit = DEFAULT_REQUESTS_LIMIT } = {}) => receiver.log.page(after, limit),
    deliveries: ({ after = 0, limit = DEFAULT_DELIVERIES_LIMIT } = {}) => receiver.ledger.page(after, limit),
    until: (fits, timeoutMs = DEFAULT_UNTIL_MS) => until(receiver, fits, timeoutMs, closing),
    reset: () => receiver.reset(),
  };
}

function until(
  receiver: Receiver,
  fits: (summary: ReceiverSummary) => boolean,
  timeoutMs: number,
  closing: AbortSignal,
): Promise<ReceiverSummary> {
  return new Promise((resolve, reject) => {
    const settle = (finish: () => void): void => {
      clearTimeout(timer);
      stopWatching();
      closing.removeEventListener('abort', onClose);
      finish();
    };
    const fail = (why: string): void => {
      const counts = JSON.stringify(receiver.summary());
      settle(() => reject(new Error(`receiver ${receiver.name}: ${why}; it counted ${counts}`)));
    };
    const onClose = (): void => fail('the simulator closed');
    const look = (): void => {
      const summary = receiver.summary();
      if (fits(summary)) settle(() => resolve(summary));
    };
    const timer = setTimeout(() => fail(`not so after ${timeoutMs} ms`), timeoutMs);
    const stopWatching = receiver.watch(look);
    closing.addEventListener('abort', onClose);
    if (closing.aborted) onClose();
    else look();
  });
}
