import { afterEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.ts';
import { startProcess } from '../../src/app/process.ts';
import { loadConfig } from '../../src/config/index.ts';
import { createLogger } from '../../src/platform/telemetry/logger.ts';
import { Relay } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

let relay: Relay;

afterEach(() => relay.close());

const start = async (config: Partial<Config> = {}): Promise<void> => {
  relay = await Relay.start(config);
};

describe('probes and metrics (SPEC J1)', () => {
  it('say that it lives, that it is ready and what it counted, to anybody', async () => {
    await start({ instance: 'probed' });
    const nobody = relay.admin;
    await relay.api.endpoint(relay.receiver('probed').url, '*');
    await relay.api.send('probe.one', {}, 'probe');
    await relay.api.send('probe.one', {}, 'probe');
    await relay.api.call('POST', '/v1/events', { type: 'probe.one' });
    await relay.api.untilSettled();
    expect(await nobody.ok('GET', '/livez')).toEqual({ status: 'ok' });
    expect(await nobody.ok('GET', '/readyz')).toMatchObject({
      status: 'ready',
      role: 'all',
      instance: 'probed',
      intake: { full: false },
      dependencies: [{ name: 'postgresql', up: true }],
    });
    const { text, headers } = await nobody.call('GET', '/metrics');
    expect(headers.get('content-type')).toMatch(/^text\/plain/);
    for (const line of [
      'relayops_events_accepted_total 1',
      'relayops_events_duplicate_total 1',
      'relayops_events_refused_total{code="EVENT_INVALID"} 1',
      'relayops_delivery_attempts_total{outcome="success"} 1',
      'relayops_deliveries_ended_total{state="succeeded"} 1',
      'relayops_delivery_in_flight 0',
      'relayops_dependency_up{dependency="postgresql"} 1',
    ])
      expect(text.split('\n')).toContain(line);
    // No tenant, endpoint or event is ever a label.
    expect(text).not.toContain(relay.tenantId);
    expect(text).not.toContain('probe.one');
  });

  it('are all that a worker serves', async () => {
    await start({ role: 'api' });
    const { url, adminUrl } = await relay.startAnother({ role: 'worker' });
    expect(url).toBe(adminUrl);
    const worker = new RelayClient(adminUrl, relay.api.key);
    expect((await worker.call('GET', '/livez')).status).toBe(200);
    expect(await worker.ok('GET', '/readyz')).toMatchObject({ role: 'worker', status: 'ready' });
    expect((await worker.call('GET', '/metrics')).status).toBe(200);
    expect((await worker.call('POST', '/v1/events', { type: 'a.b', payload: 1 })).status).toBe(404);
    for (const path of ['/livez', '/readyz', '/metrics'])
      expect((await relay.api.call('GET', path)).status, path).toBe(404);
    // What the API took, the worker delivers.
    const receiver = relay.receiver('split');
    await relay.api.endpoint(receiver.url, 'split.one');
    await relay.api.sendMany('split.one', 50);
    await receiver.until((summary) => summary.succeededDeliveries === 50);
    await relay.api.untilSettled();
  });
});

describe('a graceful stop (SPEC J4)', () => {
  it('finishes what is in flight, releases every lease and takes nothing more', async () => {
    await start({ 'delivery.endpointConcurrency': 5 });
    const receiver = relay.receiver('stopping');
    receiver.configure({ behaviour: { latencyMs: 200 } });
    await relay.api.endpoint(receiver.url, '*');
    await relay.api.sendMany('stop.one', 20);
    await receiver.until((summary) => summary.requests >= 5);
    await relay.process.stop();
    const { requests, answers } = receiver.summary();
    // Everything that was sent was heard to its end, and its result is recorded.
    expect(answers).toEqual({ 200: requests });
    expect(requests).toBeLessThan(20);
    expect(await relay.count('delivery_work', 'lease_token IS NOT NULL')).toBe(0);
    expect(await relay.count('delivery_work')).toBe(20 - requests);
    expect(await relay.count('delivery_attempts')).toBe(requests);
    expect(await relay.count('delivery_attempts', `outcome <> 'success'`)).toBe(0);
    await expect(relay.api.send('stop.two')).rejects.toThrow('fetch failed');
    await relay.process.stop();

    await relay.startAnother();
    await receiver.until((summary) => summary.succeededDeliveries === 20);
    expect(receiver.summary().duplicates).toBe(0);
  });

  it('answers every event whose request had come', async () => {
    await start();
    const sent = Array.from({ length: 200 }, (_, n) =>
      relay.api.call<{ eventId: string }>('POST', '/v1/events', { type: 'stop.events', payload: n }).then(
        (answer) => answer,
        () => null,
      ),
    );
    await Promise.race(sent);
    await relay.process.stop();
    const answers = (await Promise.all(sent)).filter((answer) => answer !== null);
    const accepted = answers.filter(({ status }) => status === 202);
    expect(accepted.length).toBeGreaterThan(0);
    expect(await relay.count('events')).toBe(accepted.length);
    for (const { status, headers } of answers.filter(({ status }) => status !== 202)) {
      expect(status).toBe(503);
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
  });

  it('that runs out of time records what is in flight as unknown, and leaves it to the next process', async () => {
    await start({ 'shutdown.timeoutMs': 150 });
    const receiver = relay.receiver('overrun');
    receiver.configure({ behaviour: { hang: true } });
    await relay.api.endpoint(receiver.url, '*');
    const { eventId } = await relay.api.send('overrun.one');
    await receiver.until((summary) => summary.requests === 1);
    await relay.process.stop();
    receiver.configure({ behaviour: {} });
    const api = relay.api.at((await relay.startAnother({ role: 'api' })).url);
    const delivery = await api.deliveryOf(eventId);
    expect(delivery).toMatchObject({ state: 'pending', attempts: 1 });
    expect(await api.attempts(delivery.deliveryId)).toMatchObject([
      { attemptNumber: 1, outcome: 'unknown', errorCode: 'aborted', httpStatus: null },
    ]);
    expect(await relay.count('delivery_work', 'lease_token IS NOT NULL')).toBe(0);

    await relay.startAnother({ role: 'worker' });
    await api.untilState(delivery.deliveryId, 'succeeded');
    const outcomes = (await api.attempts(delivery.deliveryId)).map(({ outcome }) => outcome);
    expect(outcomes).toEqual(['unknown', 'success']);
  });

  it('says that it is not ready while it stops', async () => {
    await start();
    const receiver = relay.receiver('not-ready');
    receiver.configure({ behaviour: { latencyMs: 300 } });
    await relay.api.endpoint(receiver.url, '*');
    await relay.api.send('stop.ready');
    await receiver.until((summary) => summary.requests === 1);
    const stopped = relay.process.stop();
    // An open connection is served to its end; a new one is not taken.
    await until(
      'not ready, or gone',
      () =>
        relay.admin.call('GET', '/readyz').then(
          ({ status }) => status,
          () => 'gone' as const,
        ),
      (seen) => seen === 503 || seen === 'gone',
    );
    await stopped;
  });
});

it('a connection that is lost in the middle of a transaction fails it, and nothing else (SPEC F5)', async () => {
  await start();
  const { database } = relay.process.runtime;
  const lost = database.transaction(async (tx) => {
    const { rows } = await tx.query<{ pid: number }>({ text: 'SELECT pg_backend_pid() AS pid' });
    await relay.sql('SELECT pg_terminate_backend($1)', rows[0]!.pid);
    await until(
      'its session has ended',
      () => relay.sql('SELECT 1 FROM pg_stat_activity WHERE pid = $1', rows[0]!.pid),
      (sessions) => sessions.length === 0,
    );
    await tx.query({ text: 'SELECT 1' });
  });
  await expect(lost).rejects.toThrow(/terminat|not queryable/i);
  await relay.api.endpoint(relay.receiver('after').url, '*');
  expect((await relay.api.send('after.one')).deliveries).toBe(1);
  await relay.api.untilSettled();
});

describe('a start', () => {
  it('by several at once on one database is safe', async () => {
    await start();
    const others = await Promise.all([1, 2, 3, 4].map(() => relay.startAnother()));
    expect(new Set(others.map(({ url }) => url)).size).toBe(4);
  });

  it('that fails leaves nothing behind', async () => {
    await start();
    const taken = Number(new URL(relay.process.url).port);
    const config = loadConfig({}, { ...relay.process.runtime.config, 'http.port': taken });
    await expect(startProcess(config, createLogger('silent', {}))).rejects.toThrow(
      'http could not be started',
    );
    // Dropping the database at the end of this test fails if it left a connection.
  });
});
