import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { clientOrigin } from './client-address.ts';

/** Why a connection was ended from our side. */
export type CutReason = 'too_many_of_address' | 'answer_not_read';

export interface ConnectionRules {
  /** Open connections of one client address; IPv6 counts by /64. */
  readonly maxPerAddress: number;
  /** Whether an address is a trusted proxy's, behind which are many clients: it has no such limit. */
  readonly isProxy: (address: string) => boolean;
  /** Within this time a client must take something of an answer that waits for it. */
  readonly writeTimeoutMs: number;
  readonly onCut: (reason: CutReason) => void;
}

interface Connection {
  readonly origin: string;
  /** Requests that have come and are not answered. */
  requests: number;
  /** Bytes that had left at the last look, and since when they are as many while more wait. */
  taken: number;
  stuckSince: number;
}

const LOOK_EVERY_MS = 1_000;

/**
 * The open connections of a server: how many an address has, which wait for an answer, and which do not read theirs.
 * Node's own time-outs know of none of these: an idle one counts from the last byte in either direction.
 */
export class OpenConnections {
  readonly #rules: ConnectionRules;
  readonly #open = new Map<Socket, Connection>();
  readonly #byOrigin = new Map<string, number>();
  readonly #look: NodeJS.Timeout;

  constructor(server: Server, rules: ConnectionRules) {
    this.#rules = rules;
    server.on('connection', (socket: Socket) => this.#add(socket));
    server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      const connection = this.#open.get(socket);
      if (connection === undefined) return;
      connection.requests += 1;
      response.once('close', () => (connection.requests -= 1));
    });
    // Each look costs by open connections, of which there are `http.maxConnections` at most.
    this.#look = setInterval(
      () => this.#cutStuck(),
      Math.min(LOOK_EVERY_MS, rules.writeTimeoutMs / 4),
    ).unref();
    server.once('close', () => clearInterval(this.#look));
  }

  /** Cuts every connection on which no request has come, or the last one was answered. */
  cutQuiet(): void {
    for (const [socket, { requests }] of this.#open) if (requests === 0) socket.destroy();
  }

  #add(socket: Socket): void {
    const origin = clientOrigin(socket.remoteAddress ?? '');
    const count = (this.#byOrigin.get(origin) ?? 0) + 1;
    if (count > this.#rules.maxPerAddress && !this.#rules.isProxy(socket.remoteAddress ?? '')) {
      this.#rules.onCut('too_many_of_address');
      socket.destroy();
      return;
    }
    this.#byOrigin.set(origin, count);
    this.#open.set(socket, { origin, requests: 0, taken: 0, stuckSince: Infinity });
    socket.once('close', () => this.#remove(socket, origin));
  }

  #remove(socket: Socket, origin: string): void {
    this.#open.delete(socket);
    const left = (this.#byOrigin.get(origin) ?? 1) - 1;
    if (left > 0) this.#byOrigin.set(origin, left);
    else this.#byOrigin.delete(origin);
  }

  /** A client that reads slowly goes on: what counts is that something leaves. */
  #cutStuck(): void {
    const now = performance.now();
    for (const [socket, connection] of this.#open) {
      const taken = takenByKernel(socket);
      const isStuck = socket.writableLength > 0 && taken === connection.taken;
      connection.taken = taken;
      if (!isStuck) connection.stuckSince = Infinity;
      else if (connection.stuckSince === Infinity) connection.stuckSince = now;
      else if (now - connection.stuckSince >= this.#rules.writeTimeoutMs) {
        this.#rules.onCut('answer_not_read');
        socket.destroy();
      }
    }
  }
}

/**
 * Bytes that have left this process. Node counts a write as done once all of it has left, which may be megabytes; only the
 * handle knows how far it has come, as Node's own idle time-out does.
 */
function takenByKernel(socket: Socket): number {
  const { _handle } = socket as { _handle?: { bytesWritten: number; writeQueueSize: number } | null };
  return _handle ? _handle.bytesWritten - _handle.writeQueueSize : 0;
}
