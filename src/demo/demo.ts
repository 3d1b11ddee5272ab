import { createHash } from 'node:crypto';
import { sleep } from '../shared/abort.ts';
import type { SimulatedReceiver, Simulator } from '../simulator/index.ts';
import { loadPayloads, type DemoPayload } from './payloads.ts';
import { demoReceivers, type DemoReceiver } from './receivers.ts';

/** Calls the HTTP API of the system under show. */
export interface DemoApi {
  call<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T>;
}

export interface DemoDeps {
  readonly api: DemoApi;
  readonly simulator: Simulator;
  /** Attempts recorded so far, from the system's own metrics. */
  readonly attempts: () => Promise<number>;
  readonly onProgress: (phase: string, done: number, total: number) => void;
}

/** The demo's contract: bench scripts read it. */
export interface DemoResult {
  readonly accepted: number;
  readonly duplicatesAbsorbed: number;
  readonly deliveries: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly dead: number;
  readonly replayed: number;
  readonly attempts: number;
  readonly lost: number;
  readonly duplicateDeliveries: number;
  readonly signatureFailures: number;
  readonly elapsedMs: number;
}

/** What one receiver got, for the table. */
export interface ReceiverResult {
  readonly name: string;
  readonly text: string;
  readonly requests: number;
  readonly delivered: number;
  readonly wrongBytes: number;
}

interface Endpoint {
  readonly receiver: DemoReceiver;
  readonly endpointId: string;
  readonly simulated: SimulatedReceiver;
}

interface Sent {
  readonly eventId: string;
  readonly sha256: string;
}

const SENDERS = 16;
/** Every tenth event is sent twice with its key. */
const REPEAT_EVERY = 10;
const LOOK_EVERY_MS = 100;
const PHASE_LIMIT_MS = 120_000;
const PAGE = 200;

/**
 * The main job on real input: sends every payload through the whole system to receivers of all kinds, repairs the broken one and replays
 * its dead letters, and checks by what the receivers hold that nothing was lost, changed or badly signed.
 */
export async function runDemo(deps: DemoDeps): Promise<{ result: DemoResult; receivers: ReceiverResult[] }> {
  const started = performance.now();
  const payloads = loadPayloads();
  const endpoints = await makeEndpoints(deps);
  const { sent, duplicatesAbsorbed } = await sendAll(deps, payloads);
  const deliveries = sent.length * endpoints.length;
  await untilSettled(deps, 'delivering', deliveries);
  const dead = await countByState(deps, 'dead');
  const replayed = await repairAndReplay(deps, endpoints);
  await untilSettled(deps, 'after the repair', deliveries);

  const eventOf = await eventsByDelivery(deps.api);
  const shaOf = new Map(sent.map((event) => [event.eventId, event.sha256]));
  const receivers = endpoints.map((endpoint) => inspect(endpoint, eventOf, shaOf));
  const summaries = endpoints.map((endpoint) => endpoint.simulated.summary());
  return {
    receivers,
    result: {
      accepted: sent.length,
      duplicatesAbsorbed,
      deliveries,
      succeeded: await countByState(deps, 'succeeded'),
      failed: await countByState(deps, 'failed'),
      dead,
      replayed,
      attempts: await deps.attempts(),
      lost: receivers.reduce(
        (sum, receiver) => sum + sent.length - receiver.delivered + receiver.wrongBytes,
        0,
      ),
      duplicateDeliveries: summaries.reduce((sum, summary) => sum + summary.duplicatesAfterSuccess, 0),
      signatureFailures: summaries.reduce(
        (sum, summary) => sum + summary.signatures.failed + summary.signatures.unchecked,
        0,
      ),
      elapsedMs: Math.round(performance.now() - started),
    },
  };
}

async function makeEndpoints({ api, simulator }: DemoDeps): Promise<Endpoint[]> {
  return Promise.all(
    demoReceivers.map(async (receiver) => {
      const simulated = simulator.receiver(receiver.name);
      const body = {
        url: simulated.url,
        name: receiver.name,
        retry: receiver.retry,
        subscriptions: [{ pattern: 'github.*' }],
      };
      const made = await api.call<{ endpoint: { endpointId: string }; secret: string }>(
        'POST',
        '/v1/endpoints',
        body,
      );
      simulated.configure({ behaviour: receiver.behaviour, secrets: [made.secret] });
      return { receiver, endpointId: made.endpoint.endpointId, simulated };
    }),
  );
}

/** Sends each payload once, and some a second time: the repeats must get the answer of the first. */
async function sendAll(
  { api, onProgress }: DemoDeps,
  payloads: readonly DemoPayload[],
): Promise<{ sent: Sent[]; duplicatesAbsorbed: number }> {
  const sent: Sent[] = [];
  let duplicatesAbsorbed = 0;
  let next = 0;
  const sender = async (): Promise<void> => {
    for (let index = next++; index < payloads.length; index = next++) {
      const { type, text } = payloads[index]!;
      const body = `{"type":${JSON.stringify(type)},"payload":${text},"idempotencyKey":"demo-${index}"}`;
      const { eventId } = await api.call<{ eventId: string }>('POST', '/v1/events', body);
      sent.push({ eventId, sha256: createHash('sha256').update(text).digest('hex') });
      if (index % REPEAT_EVERY === 0) {
        const again = await api.call<{ eventId: string }>('POST', '/v1/events', body);
        if (again.eventId === eventId) duplicatesAbsorbed += 1;
      }
      onProgress('sending', sent.length, payloads.length);
    }
  };
  await Promise.all(Array.from({ length: SENDERS }, sender));
  return { sent, duplicatesAbsorbed };
}

async function untilSettled({ api, onProgress }: DemoDeps, phase: string, total: number): Promise<void> {
  const deadline = Date.now() + PHASE_LIMIT_MS;
  for (;;) {
    const { open } = await api.call<{ open: { count: number } }>('GET', '/v1/stats');
    onProgress(phase, total - open.count, total);
    if (open.count === 0) return;
    if (Date.now() > deadline)
      throw new Error(`${phase}: ${open.count} deliveries are still open after ${PHASE_LIMIT_MS / 1000} s`);
    await sleep(LOOK_EVERY_MS);
  }
}

async function repairAndReplay(deps: DemoDeps, endpoints: readonly Endpoint[]): Promise<number> {
  const broken = endpoints.find(({ receiver }) => receiver.name === 'broken')!;
  broken.simulated.configure({ behaviour: {} });
  let job = await deps.api.call<{ jobId: string; state: string; replayed: number; total: number }>(
    'POST',
    '/v1/replays',
    {
      endpointId: broken.endpointId,
    },
  );
  const deadline = Date.now() + PHASE_LIMIT_MS;
  while (job.state === 'running') {
    deps.onProgress('replaying', job.replayed, job.total);
    if (Date.now() > deadline) throw new Error(`replay job ${job.jobId} is still running`);
    await sleep(LOOK_EVERY_MS);
    job = await deps.api.call('GET', `/v1/replays/${job.jobId}`);
  }
  return job.replayed;
}

async function countByState({ api }: DemoDeps, state: string): Promise<number> {
  const stats = await api.call<{ deliveries: Record<string, number> }>('GET', '/v1/stats');
  return stats.deliveries[state] ?? 0;
}

async function eventsByDelivery(api: DemoApi): Promise<Map<string, string>> {
  const eventOf = new Map<string, string>();
  let cursor: string | null = '';
  while (cursor !== null) {
    const query: string = `limit=${PAGE}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    const page: { data: { deliveryId: string; eventId: string }[]; nextCursor: string | null } =
      await api.call('GET', `/v1/deliveries?${query}`);
    for (const { deliveryId, eventId } of page.data) eventOf.set(deliveryId, eventId);
    cursor = page.nextCursor;
  }
  return eventOf;
}

/** Compares what the receiver holds with what was sent. A refusing receiver counts what reached it. */
function inspect(
  { receiver, simulated }: Endpoint,
  eventOf: ReadonlyMap<string, string>,
  shaOf: ReadonlyMap<string, string>,
): ReceiverResult {
  const rows = simulated.deliveries({ limit: 10_000 });
  const delivered = rows.filter(([, , okAnswers]) => receiver.ends === 'failed' || okAnswers > 0);
  const events = new Set(
    delivered
      .map(([deliveryId]) => eventOf.get(deliveryId))
      .filter((eventId) => eventId !== undefined && shaOf.has(eventId)),
  );
  const wrongBytes = delivered.filter(
    ([deliveryId, , , sha256]) => shaOf.get(eventOf.get(deliveryId) ?? '') !== sha256,
  ).length;
  return {
    name: receiver.name,
    text: receiver.text,
    requests: simulated.summary().requests,
    delivered: events.size,
    wrongBytes,
  };
}
