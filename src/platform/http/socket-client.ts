import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import type { PendingName } from '../dns/resolver.ts';
import type { Dialler, GuardedConnect } from './guarded-connector.ts';

/** A request as its client sees it. */
export interface LinedUp {
  /** Whose limits its look-up counts for. */
  readonly share: string;
  /** Set while the request has a client and is not started. */
  line: Line | undefined;
  /** Set as soon as the request is dispatched. */
  pool: OriginPool | undefined;
}

/** Nobody waited for the connection any more. Concerns no request that is still wanted. */
export class ConnectAbandonedError extends Error {
  readonly code = 'CONNECT_ABANDONED';

  constructor() {
    super('The connection was given up before it was open');
    this.name = 'ConnectAbandonedError';
  }
}

/**
 * The requests that a client was given and has not started, and the connection that they wait for. This is how a connection knows
 * for whose request it is made: undici's connector is told the origin only.
 */
export class Line implements Dialler {
  share = '';
  pendingName: PendingName | undefined;
  hasQueued = false;
  readonly #connect: GuardedConnect;
  #waiting = 0;
  #connecting: Socket | undefined;

  constructor(connect: GuardedConnect) {
    this.#connect = connect;
  }

  get isConnecting(): boolean {
    return this.#connecting !== undefined;
  }

  join(request: LinedUp): void {
    request.line = this;
    this.share = request.share;
    this.#waiting += 1;
  }

  /** The last one who leaves ends the look-up or the connection attempt. */
  leave(): void {
    this.#waiting -= 1;
    if (this.#waiting === 0) this.#connecting?.destroy(new ConnectAbandonedError());
  }

  connect(target: buildConnector.Options, callback: buildConnector.Callback): Socket | undefined {
    const done: buildConnector.Callback = (...result) => {
      this.#connecting = undefined;
      callback(...result);
    };
    this.#connecting = this.#connect(target, done, this);
    return this.#connecting;
  }
}

/** undici's client of one socket, with its line. A request on an open socket pays for two counts. */
export class SocketClient extends Client {
  readonly #line: Line;

  constructor(origin: URL, options: Client.Options, connect: GuardedConnect) {
    const line = new Line(connect);
    super(origin, { ...options, connect: (target, callback) => line.connect(target, callback) });
    this.#line = line;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    this.#line.join(handler as Dispatcher.DispatchHandler & LinedUp);
    return super.dispatch(options, handler);
  }
}

/** undici's pool of one origin. Requests for which it has no free socket wait in it, without a line. */
export class OriginPool extends Pool {
  /** Sockets are open. What waits nevertheless waits for others to give one back. */
  get isConnected(): boolean {
    return this.stats.connected > 0;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    (handler as Dispatcher.DispatchHandler & LinedUp).pool = this;
    return super.dispatch(options, handler);
  }
}
