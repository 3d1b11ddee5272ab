import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RelayProcess } from '../../src/app/process.ts';
import type { EndpointId } from '../../src/shared/ids.ts';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { Endpoint } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

const TO_OPEN = 4;

let relay: Relay;
let second: RelayProcess;

beforeAll(async () => {
  const config = {
    'health.failuresToOpen': TO_OPEN,
    'health.minFailingMs': 0,
    'health.openMs': 300,
    'health.openCapMs': 600,
    'health.disableAfterS': 3_600,
    'delivery.maxAttempts': 50,
  };
  relay = await Relay.start(config);
  second = await relay.startAnother({ ...config, role: 'worker' });
});
afterAll(() => relay.close());

const endpoint = ({ endpointId }: { endpointId: string }): Promise<Endpoint> =>
  relay.api.ok('GET', `/v1/endpoints/${endpointId}`);
const untilHealth = (one: { endpointId: string }, state: Endpoint['health']['state']) =>
  until(
    `health ${state}`,
    () => endpoint(one),
    ({ health }) => health.state === state,
  );

interface Told {
  readonly type: string;
  readonly data: Record<string, unknown>;
}

/** Operational events that a receiver got. */
const told = (receiver: SimulatedReceiver): Told[] =>
  receiver.requests().map(({ headers, body }) => ({
    type: String(headers['x-relayops-event-type']),
    data: JSON.parse(body) as Record<string, unknown>,
  }));

describe('the breaker of an endpoint', () => {
  it('holds its deliveries back after so many failures in a row, probes with one at a time over all processes, and lets all go after a success', async () => {
    const receiver = relay.receiver('breaker');
    const ops = relay.receiver('breaker-ops');
    await relay.api.endpoint(ops.url, 'endpoint.recovered');
    receiver.configure({ behaviour: { status: 503, latencyMs: 30 } });
    const made = await relay.api.endpoint(receiver.url, 'breaker.*', { maxConcurrency: 2 });
    await relay.api.sendMany('breaker.one', 40);
    const { health, state } = await untilHealth(made, 'held_back');
    expect(state).toBe('active');
    expect(health.failures).toBeGreaterThanOrEqual(TO_OPEN);
    expect(health.failingSince).not.toBeNull();
    expect(health.nextProbeAt).not.toBeNull();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const atFirst = receiver.summary().requests;
    // And those that were in flight, or claimed, before both processes knew; without a breaker there would be 25 or more by now.
    expect(atFirst).toBeLessThanOrEqual(TO_OPEN + 12);
    const from = Date.now();
    await until(
      'three probes',
      () => receiver.summary().requests,
      (requests) => requests >= atFirst + 3,
    );
    // The first 100 ms or more from now, the others 600 ms after the one before: never two at a time.
    expect(Date.now() - from).toBeGreaterThan(1_200);
    const spent = await relay.sql<{ made: number }>(
      'SELECT count(*)::int AS made FROM relayops.delivery_attempts WHERE endpoint_id = $1',
      made.endpointId,
    );
    expect(spent[0]!.made).toBeLessThanOrEqual(receiver.summary().requests);
    receiver.configure({ behaviour: {} });
    await receiver.until((summary) => summary.succeededDeliveries === 40);
    await untilHealth(made, 'ok');
    await ops.until((summary) => summary.succeededDeliveries === 1);
    expect(told(ops)).toMatchObject([
      { type: 'endpoint.recovered', data: { endpointId: made.endpointId, url: receiver.url } },
    ]);
  });

  it('stays closed while a success comes in between, in whichever process, and for answers that are about the event and not the receiver', async () => {
    const receiver = relay.receiver('mixed');
    receiver.configure({ behaviour: { status: '500,500,200', loop: true } });
    const mixed = await relay.api.endpoint(receiver.url, 'mixed.*', { maxConcurrency: 1 });
    await relay.api.sendMany('mixed.one', 12);
    await receiver.until((summary) => summary.succeededDeliveries === 12);
    const refusing = relay.receiver('refusing');
    refusing.configure({ behaviour: { status: 422 } });
    const refused = await relay.api.endpoint(refusing.url, 'refused.*');
    await relay.api.sendMany('refused.one', 3 * TO_OPEN);
    await refusing.until((summary) => summary.requests === 3 * TO_OPEN);
    await untilHealth(refused, 'failing');
    expect((await endpoint(mixed)).health.state).not.toBe('held_back');
    expect((await endpoint(refused)).health).toMatchObject({ state: 'failing' });
    expect(refusing.summary().requests).toBe(3 * TO_OPEN);
  });

  it('is asked again by another process when the one that had the probe vanished', async () => {
    const receiver = relay.receiver('vanished-probe');
    receiver.configure({ behaviour: { status: 500 } });
    const made = await relay.api.endpoint(receiver.url, 'vanished.*');
    await relay.api.sendMany('vanished.one', TO_OPEN + 1);
    await untilHealth(made, 'held_back');
    await relay.sql(
      "UPDATE relayops.endpoint_health SET open_until = now(), probe_until = now() + interval '700 ms' WHERE endpoint_id = $1",
      made.endpointId,
    );
    receiver.configure({ behaviour: {} });
    await receiver.until((summary) => summary.succeededDeliveries === TO_OPEN + 1);
  });
});

describe('an endpoint with nothing but failures for the set time (SPEC D11)', () => {
  it('is disabled, its tenant is told once, its deliveries wait, and enabling it resumes them', async () => {
    const receiver = relay.receiver('hopeless');
    const ops = relay.receiver('ops');
    await relay.api.endpoint(ops.url, 'endpoint.disabled');
    const everything = relay.receiver('everything');
    const all = await relay.api.endpoint(everything.url, '*');
    receiver.configure({ behaviour: { status: 500 } });
    const made = await relay.api.endpoint(receiver.url, 'hopeless.*');
    await relay.api.sendMany('hopeless.one', 6);
    await untilHealth(made, 'held_back');
    await relay.sql(
      "UPDATE relayops.endpoint_health SET failing_since = now() - interval '2 hours' WHERE endpoint_id = $1",
      made.endpointId,
    );
    const disabled = await until(
      'disabled',
      () => endpoint(made),
      ({ state }) => state === 'disabled',
    );
    expect(disabled.stateReason).toMatch(/^Nothing but failed attempts since .* UTC\.$/);
    await ops.until((summary) => summary.succeededDeliveries === 1);
    expect(told(ops)).toMatchObject([
      {
        type: 'endpoint.disabled',
        data: { endpointId: made.endpointId, reason: disabled.stateReason, url: receiver.url },
      },
    ]);
    const before = receiver.summary().requests;
    await relay.api.send('hopeless.one');
    receiver.configure({ behaviour: {} });
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    expect(receiver.summary().requests).toBe(before);
    await relay.api.ok('POST', `/v1/endpoints/${made.endpointId}/enable`);
    await receiver.until((summary) => summary.succeededDeliveries === 7);
    expect((await endpoint(made)).health.state).toBe('ok');
    // A subscription to everything means the tenant's own events.
    await everything.until((summary) => summary.succeededDeliveries === 7);
    expect(told(everything).map(({ type }) => type)).not.toContain('endpoint.disabled');
    await relay.api.ok('DELETE', `/v1/endpoints/${all.endpointId}`);
  });

  it('is told of when it was 410 Gone that disabled it', async () => {
    const ops = relay.receiver('gone-ops');
    const subscriber = await relay.api.endpoint(ops.url, 'endpoint.*');
    const receiver = relay.receiver('gone');
    receiver.configure({ behaviour: { status: 410 } });
    const made = await relay.api.endpoint(receiver.url, 'gone.*');
    await relay.api.send('gone.one');
    await ops.until((summary) => summary.succeededDeliveries === 1);
    expect(told(ops)).toMatchObject([{ type: 'endpoint.disabled', data: { endpointId: made.endpointId } }]);
    await relay.api.ok('DELETE', `/v1/endpoints/${subscriber.endpointId}`);
  });
});

it('a dead delivery is told of, to others than its own endpoint, and a dead notice of that is not', async () => {
  const tenant = await relay.newTenant();
  const receiver = relay.receiver('dying');
  const ops = relay.receiver('dying-ops');
  receiver.configure({ behaviour: { status: 500 } });
  ops.configure({ behaviour: { status: 500 } });
  const retry = { maxAttempts: 1 };
  const made = await tenant.api.endpoint(receiver.url, 'dying.*', { retry });
  await tenant.api.ok('POST', `/v1/endpoints/${made.endpointId}/subscriptions`, { pattern: 'delivery.dead' });
  await tenant.api.endpoint(ops.url, 'delivery.dead', { retry });
  const { eventId } = await tenant.api.send('dying.one');
  const dead = await tenant.api.untilEnded(eventId);
  expect(dead.state).toBe('dead');
  await ops.until((summary) => summary.requests === 1);
  expect(told(ops)).toMatchObject([
    {
      type: 'delivery.dead',
      data: {
        deliveryId: dead.deliveryId,
        eventId,
        eventType: 'dying.one',
        endpointId: made.endpointId as EndpointId,
        attempts: 1,
        httpStatus: 500,
      },
    },
  ]);
  await tenant.api.untilSettled();
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(receiver.summary().requests).toBe(1);
  expect(ops.summary().requests).toBe(1);
  expect(await relay.count('operational_notices')).toBe(0);
  expect(await relay.count('events', "tenant_id = $1 AND format = 'operational'", tenant.tenantId)).toBe(1);
  expect(second.runtime.config.role).toBe('worker');
});
