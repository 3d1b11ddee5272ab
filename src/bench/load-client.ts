/**
 * Load in a process of its own: a number of connections that each send one prepared request after the other over a raw socket and wait
 * for its answer. Raw, because on two cores a comfortable client would be half of what is measured.
 *
 * Takes one job after the other by IPC, answers each with its result.
 */
import { connect, type Socket } from 'node:net';
import process from 'node:process';
import { percentile } from './statistics.ts';

export interface LoadJob {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Bodies, taken in turn. */
  readonly bodies: readonly string[];
  readonly connections: number;
  readonly requests: number;
  readonly expectStatus: number;
}

export interface LoadResult {
  readonly requests: number;
  readonly failed: number;
  readonly elapsedMs: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function runJob(job: LoadJob): Promise<LoadResult> {
  const url = new URL(job.url);
  const requests = job.bodies.map((body) => requestBytes(url, job.headers, body));
  const latencies: number[] = [];
  let sent = 0;
  let failed = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: Math.min(job.connections, job.requests) }, async () => {
      const connection = await Connection.open(url);
      while (sent < job.requests) {
        const index = sent++;
        const begun = performance.now();
        const status = await connection.exchange(requests[index % requests.length]!);
        latencies.push(performance.now() - begun);
        if (status !== job.expectStatus) failed += 1;
      }
      connection.close();
    }),
  );
  return {
    requests: job.requests,
    failed,
    elapsedMs: performance.now() - started,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  };
}

function requestBytes(url: URL, headers: Readonly<Record<string, string>>, body: string): Buffer {
  const lines = Object.entries({
    host: url.host,
    'content-length': String(Buffer.byteLength(body)),
    ...headers,
  }).map(([k, v]) => `${k}: ${v}`);
  return Buffer.from(`POST ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** One keep-alive connection; reads answers with a Content-Length, which ours all have. */
class Connection {
  readonly #socket: Socket;
  #pending: Buffer = Buffer.alloc(0);
  #answer: ((status: number) => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('error', (error) => this.#fail?.(error));
    socket.on('close', () => this.#fail?.(new Error('connection closed')));
  }

  static open(url: URL): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const socket = connect(Number(url.port), url.hostname, () => resolve(new Connection(socket)));
      socket.once('error', reject);
    });
  }

  exchange(request: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      this.#fail = reject;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#fail = undefined;
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    this.#pending = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    const headEnd = this.#pending.indexOf('\r\n\r\n');
    if (headEnd < 0) return;
    const head = this.#pending.toString('latin1', 0, headEnd);
    const length = Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#pending.length < headEnd + 4 + length) return;
    this.#pending = this.#pending.subarray(headEnd + 4 + length);
    this.#answer?.(Number(head.slice(9, 12)));
  }
}

process.on('message', (job: LoadJob) => {
  runJob(job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
process.stdout.write('{}\n');
