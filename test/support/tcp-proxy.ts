import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';

/** What becomes of connections: passed on, held without an answer, passed on to the server alone, or refused. */
type Weather = 'fair' | 'stalled' | 'muted' | 'cut';

interface Address {
  readonly host: string;
  readonly port: number;
}

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
}

/** A TCP relay on a loopback port in front of a server, for tests of a network that fails. */
export class TcpProxy {
  readonly port: number;
  readonly #listener: Server;
  readonly #target: Address;
  readonly #pairs = new Set<Pair>();
  #weather: Weather = 'fair';

  private constructor(listener: Server, target: Address) {
    this.#listener = listener;
    this.#target = target;
    this.port = (listener.address() as { port: number }).port;
    listener.on('connection', (client) => this.#accept(client));
  }

  /** @param url of the server, e.g. `redis://127.0.0.1:6379` */
  static async start(url: string): Promise<TcpProxy> {
    // Half-open connections are passed on as such.
    const listener = createServer({ allowHalfOpen: true, noDelay: true });
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    return new TcpProxy(listener, addressIn(url));
  }

  /** The URL with this proxy's address in it. */
  through(url: string): string {
    const changed = new URL(url);
    changed.hostname = '127.0.0.1';
    changed.port = String(this.port);
    return changed.toString();
  }

  /** As if the server were gone: connections are reset, new ones at once. */
  cut(): void {
    this.#weather = 'cut';
    for (const pair of this.#pairs) this.#end(pair);
  }

  /** As if a cable were pulled: everything is accepted and nothing answered. `heal` lets through what was held. */
  stall(): void {
    this.#weather = 'stalled';
    for (const { client, server } of this.#pairs) {
      client.pause();
      server.pause();
    }
  }

  /** What clients send arrives, and no answer comes back. `heal` lets through what was held. */
  mute(): void {
    this.#weather = 'muted';
    for (const { server } of this.#pairs) server.pause();
  }

  heal(): void {
    this.#weather = 'fair';
    for (const { client, server } of this.#pairs) {
      client.resume();
      server.resume();
    }
  }

  async close(): Promise<void> {
    this.cut();
    this.#listener.close();
    await once(this.#listener, 'close');
  }

  #accept(client: Socket): void {
    client.on('error', () => undefined);
    if (this.#weather === 'cut') {
      client.resetAndDestroy();
      return;
    }
    const server = connect({ ...this.#target, allowHalfOpen: true, noDelay: true });
    const pair = { client, server };
    this.#pairs.add(pair);
    relay(client, server);
    relay(server, client);
    for (const socket of [client, server]) {
      socket.on('error', () => this.#end(pair));
      socket.on('close', () => this.#end(pair));
    }
    if (this.#weather === 'stalled') client.pause();
    if (this.#weather !== 'fair') server.pause();
  }

  #end(pair: Pair): void {
    if (!this.#pairs.delete(pair)) return;
    for (const socket of [pair.client, pair.server])
      if (!socket.destroyed) {
        if (socket.connecting) socket.destroy();
        else socket.resetAndDestroy();
      }
  }
}

const USUAL_PORTS: Readonly<Record<string, number>> = { 'redis:': 6379, 'amqp:': 5672, 'postgres:': 5432 };

function addressIn(url: string): Address {
  const { protocol, hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) || USUAL_PORTS[protocol]! };
}

function relay(from: Socket, to: Socket): void {
  from.on('data', (bytes) => to.write(bytes));
  from.on('end', () => to.end());
}
