/**
 * Sender and receiver of one process, so that both read one clock: posts events at a steady rate and notes when each comes back as a
 * delivery. Takes one job after the other by IPC.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import process from 'node:process';
import { Agent, type Dispatcher } from 'undici';
import { percentile } from './statistics.ts';

export interface LatencyJob {
  /** Where events go; null posts straight to the receiver, the bare round trip. */
  readonly url: string | null;
  readonly headers: Readonly<Record<string, string>>;
  /** Event types, taken in turn. */
  readonly types: readonly string[];
  readonly ratePerSecond: number;
  readonly seconds: number;
  readonly payloadBytes: number;
}

export interface LatencyResult {
  readonly sent: number;
  readonly received: number;
  readonly repeated: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const TICK_MS = 1;
/** How long stragglers are waited for. */
const PATIENCE_MS = 20_000;

let current: { latencies: number[]; seen: Set<number>; repeated: number; onReceived: () => void } | undefined;

const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    note(Buffer.concat(chunks).toString('latin1'));
    response.writeHead(200, { 'content-length': 2 });
    response.end('ok');
  });
});

function note(body: string): void {
  const match = /"number":(\d+),"sentMs":([\d.]+)/.exec(body);
  if (!match || !current) return;
  const number = Number(match[1]);
  if (current.seen.has(number)) {
    current.repeated += 1;
    return;
  }
  current.seen.add(number);
  current.latencies.push(performance.now() - Number(match[2]));
  current.onReceived();
}

async function runJob(job: LatencyJob): Promise<LatencyResult> {
  const agent = new Agent({ connections: 128, pipelining: 1 });
  const total = Math.round(job.ratePerSecond * job.seconds);
  const all = Promise.withResolvers<void>();
  const state = {
    latencies: [] as number[],
    seen: new Set<number>(),
    repeated: 0,
    onReceived: () => undefined as void,
  };
  state.onReceived = () => {
    if (state.seen.size === total) all.resolve();
  };
  current = state;
  const filler = 'x'.repeat(job.payloadBytes);
  const started = performance.now();
  let sent = 0;
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      const due = Math.min(total, Math.floor(((performance.now() - started) * job.ratePerSecond) / 1000));
      while (sent < due) post(agent, job, sent++, filler);
      if (sent >= total) {
        clearInterval(timer);
        resolve();
      }
    }, TICK_MS);
  });
  const patience = setTimeout(() => all.resolve(), PATIENCE_MS);
  await all.promise;
  clearTimeout(patience);
  await agent.close();
  return {
    sent: total,
    received: state.seen.size,
    repeated: state.repeated,
    p50Ms: percentile(state.latencies, 0.5),
    p99Ms: percentile(state.latencies, 0.99),
  };
}

function post(agent: Agent, job: LatencyJob, number: number, filler: string): void {
  const payload = `{"number":${number},"sentMs":${performance.now()},"data":"${filler}"}`;
  const type = job.types[number % job.types.length]!;
  const body = job.url === null ? payload : `{"type":"${type}","payload":${payload}}`;
  const origin = job.url ?? receiverUrl();
  const options = {
    origin,
    path: job.url === null ? '/bare' : '/v1/events',
    method: 'POST' as const,
    headers: { ...job.headers },
    body,
  };
  agent.dispatch(options, new Ignored());
}

/** The answer is read and forgotten; a refusal shows as an event that never comes back. */
class Ignored implements Dispatcher.DispatchHandler {
  onRequestStart(): void {}
  onResponseStart(): void {}
  onResponseData(): void {}
  onResponseEnd(): void {}
  onResponseError(): void {}
}

function receiverUrl(): string {
  return `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`;
}

receiver.listen(0, '127.0.0.1', () => process.stdout.write(JSON.stringify({ url: receiverUrl() }) + '\n'));
process.on('message', (job: LatencyJob) => {
  runJob(job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});
process.on('disconnect', () => process.exit(0));
process.on('SIGTERM', () => process.exit(0));
