/** A name server for tests: answers, delays, fails, truncates or stays silent, over UDP and TCP on one loopback port. */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import ipaddr from 'ipaddr.js';

/** What is said of a name. Both families have no address unless they are named. */
export interface DnsReply {
  readonly a?: readonly string[];
  readonly aaaa?: readonly string[];
  readonly ttlS?: number;
  /** Of a family's answer: `SERVFAIL` or `silent`. */
  readonly fault?: 'SERVFAIL' | 'NXDOMAIN' | 'silent';
  /** The same for questions of one family alone. */
  readonly faultOfAaaa?: 'SERVFAIL' | 'NXDOMAIN' | 'silent';
  readonly delayMs?: number;
  /** UDP answers are cut off, so that the client asks again over TCP. */
  readonly truncated?: boolean;
}

type RecordType = 'A' | 'AAAA';

const TYPES: Readonly<Record<number, RecordType>> = { 1: 'A', 28: 'AAAA' };
const RCODES = { NOERROR: 0, SERVFAIL: 2, NXDOMAIN: 3 } as const;
const HEADER_BYTES = 12;
const TRUNCATED_FLAG = 0x0200;
const ANSWER_FLAGS = 0x8180;

export class DnsServer {
  readonly #udp: UdpSocket;
  readonly #tcp: Server;
  readonly #sockets = new Set<Socket>();
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #zone = new Map<string, DnsReply>();
  readonly #asked: string[] = [];
  readonly #listeners = new Set<() => void>();

  private constructor(udp: UdpSocket, tcp: Server) {
    this.#udp = udp;
    this.#tcp = tcp;
    udp.on('message', (query, { port, address }) =>
      this.#hear(query, true, (answer) => udp.send(answer, port, address)),
    );
    tcp.on('connection', (socket) => this.#serve(socket));
  }

  static async start(): Promise<DnsServer> {
    const tcp = createServer().listen(0, '127.0.0.1');
    await once(tcp, 'listening');
    const udp = createSocket('udp4');
    udp.bind((tcp.address() as AddressInfo).port, '127.0.0.1');
    await once(udp, 'listening');
    return new DnsServer(udp, tcp);
  }

  /** For the list of servers. */
  get address(): string {
    return `127.0.0.1:${this.#udp.address().port}`;
  }

  /** From now on this is said of the name. Names that were not set do not exist. */
  set(name: string, reply: DnsReply): void {
    this.#zone.set(name.toLowerCase(), reply);
  }

  /** Questions for IPv4 addresses so far, in their order: one for each look-up and try. */
  asked(name?: string): readonly string[] {
    return name === undefined ? this.#asked : this.#asked.filter((asked) => asked === name);
  }

  /** Resolves when `count` questions for IPv4 addresses have come. */
  async untilAsked(count: number): Promise<void> {
    while (this.#asked.length < count)
      await new Promise<void>((resolve) => {
        const listener = (): void => {
          this.#listeners.delete(listener);
          resolve();
        };
        this.#listeners.add(listener);
      });
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const socket of this.#sockets) socket.destroy();
    this.#udp.close();
    this.#tcp.close();
    await once(this.#tcp, 'close');
  }

  /** Messages over TCP are preceded by their length (RFC 1035, section 4.2.2). */
  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    let unread = Buffer.alloc(0);
    socket.on('data', (chunk) => {
      unread = Buffer.concat([unread, chunk]);
      while (unread.length >= 2 && unread.length >= 2 + unread.readUInt16BE(0)) {
        const end = 2 + unread.readUInt16BE(0);
        this.#hear(unread.subarray(2, end), false, (answer) => {
          const length = Buffer.alloc(2);
          length.writeUInt16BE(answer.length);
          socket.write(Buffer.concat([length, answer]));
        });
        unread = unread.subarray(end);
      }
    });
  }

  #hear(query: Buffer, isUdp: boolean, send: (answer: Buffer) => void): void {
    const { name, type, question } = parseQuestion(query);
    if (type === 'A') {
      this.#asked.push(name);
      for (const listener of [...this.#listeners]) listener();
    }
    const reply = this.#zone.get(name) ?? { fault: 'NXDOMAIN' };
    const fault = (type === 'AAAA' ? reply.faultOfAaaa : undefined) ?? reply.fault;
    if (fault === 'silent') return;
    const addresses = (type === 'A' ? reply.a : type === 'AAAA' ? reply.aaaa : undefined) ?? [];
    const isCut = isUdp && reply.truncated === true;
    const answer = Buffer.concat([
      header(query.readUInt16BE(0), RCODES[fault ?? 'NOERROR'], fault || isCut ? 0 : addresses.length, isCut),
      question,
      ...(fault || isCut ? [] : addresses.map((address) => record(address, reply.ttlS ?? 60))),
    ]);
    if (reply.delayMs === undefined) return send(answer);
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      send(answer);
    }, reply.delayMs);
    this.#timers.add(timer);
  }
}

function parseQuestion(query: Buffer): { name: string; type: RecordType | undefined; question: Buffer } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  const type = TYPES[query.readUInt16BE(at + 1)];
  return { name: labels.join('.').toLowerCase(), type, question: query.subarray(HEADER_BYTES, at + 5) };
}

function header(id: number, rcode: number, answers: number, isCut: boolean): Buffer {
  const bytes = Buffer.alloc(HEADER_BYTES);
  bytes.writeUInt16BE(id, 0);
  bytes.writeUInt16BE(ANSWER_FLAGS | rcode | (isCut ? TRUNCATED_FLAG : 0), 2);
  bytes.writeUInt16BE(1, 4);
  bytes.writeUInt16BE(answers, 6);
  return bytes;
}

/** An address record for the name of the question, which stands at the end of the header. */
function record(address: string, ttlS: number): Buffer {
  const data = ipaddr.parse(address).toByteArray();
  const bytes = Buffer.alloc(12);
  bytes.writeUInt16BE(0xc000 | HEADER_BYTES, 0);
  bytes.writeUInt16BE(data.length === 4 ? 1 : 28, 2);
  bytes.writeUInt16BE(1, 4);
  bytes.writeUInt32BE(ttlS, 6);
  bytes.writeUInt16BE(data.length, 10);
  return Buffer.concat([bytes, Buffer.from(data)]);
}
