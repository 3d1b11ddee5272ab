import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** The open connections of a server and the requests that each waits for. Node tells of idle ones only once they have been used. */
export class OpenConnections {
  readonly #requests = new Map<Socket, number>();

  constructor(server: Server) {
    server.on('connection', (socket: Socket) => {
      this.#requests.set(socket, 0);
      socket.once('close', () => this.#requests.delete(socket));
    });
    server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
      this.#count(socket, 1);
      response.once('close', () => this.#count(socket, -1));
    });
  }

  /** Cuts every connection on which no request has come, or the last one was answered. */
  cutQuiet(): void {
    for (const [socket, requests] of this.#requests) if (requests === 0) socket.destroy();
  }

  #count(socket: Socket, change: number): void {
    const before = this.#requests.get(socket);
    if (before !== undefined) this.#requests.set(socket, before + change);
  }
}
