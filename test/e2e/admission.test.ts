import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Relay } from '../support/relay.ts';
import type { AcceptedEvent } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

const RATE = 5;
const BACKLOG_HIGH = 10;
const BACKLOG_LOW = 3;

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start({
    'ingest.ratePerSecond': RATE,
    'ingest.rateBurst': RATE,
    'ingest.backlogHigh': BACKLOG_HIGH,
    'ingest.backlogLow': BACKLOG_LOW,
    'ingest.tenantShare': 1,
  });
});
afterAll(() => relay.close());

const event = { type: 'order.paid', payload: { order: 1 } };
/** A tenant whose rate nothing here reaches. */
const unlimited = async () => {
  const tenant = await relay.newTenant();
  await relay.sql(
    'UPDATE relayops.tenants SET ingest_rate = 100000, ingest_burst = 100000 WHERE tenant_id = $1',
    tenant.tenantId,
  );
  return tenant;
};

describe('a tenant over its rate (SPEC C4)', () => {
  it('gets 429 with Retry-After, nothing refused is stored, and after that time it is served again', async () => {
    const { api, tenantId } = await relay.newTenant();
    const answers = await Promise.all(
      Array.from({ length: 4 * RATE }, () =>
        api.call<AcceptedEvent & { code: string }>('POST', '/v1/events', event),
      ),
    );
    const accepted = answers.filter(({ status }) => status === 202);
    const refused = answers.filter(({ status }) => status === 429);
    expect(accepted.length).toBeGreaterThanOrEqual(RATE);
    expect(accepted.length + refused.length).toBe(answers.length);
    expect(refused.length).toBeGreaterThanOrEqual(RATE);
    for (const { body, headers } of refused) {
      expect(body.code).toBe('RATE_LIMITED');
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
    expect(await relay.count('events', 'tenant_id = $1', tenantId)).toBe(accepted.length);
    const afterMs = Number(refused[0]!.headers.get('retry-after')) * 1000;
    await until(
      'served again',
      () => api.call('POST', '/v1/events', event),
      ({ status }) => status === 202,
      afterMs + 500,
    );
  });

  it('does not use up the rate of another', async () => {
    const { api } = await relay.newTenant();
    expect((await api.call('POST', '/v1/events', event)).status).toBe(202);
  });

  it('may have limits of its own', async () => {
    const { api } = await unlimited();
    const answers = await Promise.all(
      Array.from({ length: 4 * RATE }, () => api.call('POST', '/v1/events', event)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  });

  it('is told so for a whole batch, of which then nothing is stored', async () => {
    const { api, tenantId } = await relay.newTenant();
    const batch = (length: number) => ({ events: Array.from({ length }, () => event) });
    await api.ok('POST', '/v1/events/batch', batch(RATE));
    const refused = await api.call('POST', '/v1/events/batch', batch(RATE));
    expect(refused).toMatchObject({ status: 429, body: { code: 'RATE_LIMITED' } });
    expect(await relay.count('events', 'tenant_id = $1', tenantId)).toBe(RATE);
    const never = await api.call('POST', '/v1/events/batch', batch(RATE + 1));
    expect(never).toMatchObject({ status: 413, body: { code: 'BATCH_TOO_LARGE' } });
  });
});

it('an event without recipients is a stored fact', async () => {
  const { api } = await unlimited();
  const accepted = await api.send('nobody.cares', { n: 1 });
  expect(accepted.deliveries).toBe(0);
  expect(await api.ok('GET', `/v1/events/${accepted.eventId}`)).toMatchObject({ deliveryCount: 0 });
  expect(await api.deliveries({ eventId: accepted.eventId })).toEqual([]);
});

it('closes intake at the high backlog with 503 and Retry-After, stores nothing then, and opens it below the low one', async () => {
  const { api, tenantId } = await unlimited();
  const receiver = relay.receiver('backlog');
  const endpoint = await api.endpoint(receiver.url, '*', { paused: true });
  let sent = 0;
  const refused = await until(
    'intake closed',
    async () => {
      const answer = await api.call<{ code: string }>('POST', '/v1/events', event);
      if (answer.status === 202) sent += 1;
      return answer;
    },
    ({ status }) => status !== 202,
  );
  expect(refused).toMatchObject({ status: 503, body: { code: 'BACKLOG_FULL' } });
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
  expect(sent).toBeGreaterThanOrEqual(BACKLOG_HIGH);
  expect((await api.call('POST', '/v1/events/batch', { events: [event] })).status).toBe(503);
  expect(await relay.count('events', 'tenant_id = $1', tenantId)).toBe(sent);
  const ready = await relay.admin.call<{ intake: { full: boolean } }>('GET', '/readyz');
  expect(ready).toMatchObject({ status: 200, body: { intake: { full: true } } });

  await api.ok('POST', `/v1/endpoints/${endpoint.endpointId}/resume`);
  await until(
    'intake open',
    () => api.call('POST', '/v1/events', event),
    ({ status }) => status === 202,
  );
  await api.untilSettled();
  expect(receiver.summary()).toMatchObject({ uniqueDeliveries: sent + 1, duplicatesAfterSuccess: 0 });
});

it("keeps one tenant's backlog from shutting out another", async () => {
  const [greedy, modest] = [await unlimited(), await unlimited()];
  const process = await relay.startAnother({ 'ingest.tenantShare': 0.5 });
  const post = ({ api }: typeof greedy) => api.at(process.url).call('POST', '/v1/events', event);
  for (const { api } of [greedy, modest])
    await api.endpoint(relay.receiver('held').url, 'order.*', { paused: true });
  expect((await post(modest)).status).toBe(202);
  await until(
    'the greedy one is refused',
    () => post(greedy),
    ({ status }) => status === 503,
  );
  for (let n = 0; n < 3; n += 1) expect((await post(modest)).status).toBe(202);
});
