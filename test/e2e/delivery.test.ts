import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { BehaviourInput, ShownRequest, SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { Attempt, Delivery } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

const RETRY_AFTER_CAP_MS = 1_500;

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start({ 'delivery.retryAfterCapMs': RETRY_AFTER_CAP_MS });
});
afterAll(() => relay.close());

type Settings = Parameters<Relay['api']['endpoint']>[2];

/** A receiver with an endpoint that gets the events of its own name. */
async function subscribed(
  name: string,
  behaviour: BehaviourInput = {},
  settings: Settings = {},
): Promise<{ receiver: SimulatedReceiver; endpointId: string; secret: string; type: string }> {
  const receiver = relay.receiver(name);
  const type = `${name}.one`;
  const { endpointId, secret } = await relay.api.endpoint(receiver.url, type, settings);
  receiver.configure({ behaviour, secrets: [secret] });
  return { receiver, endpointId, secret, type };
}

interface Story {
  readonly delivery: Delivery;
  readonly attempts: readonly Attempt[];
}

/** Sends one event and waits for the end of its delivery. */
async function sent(type: string, payload: unknown = { n: 1 }): Promise<Story> {
  const { eventId } = await relay.api.send(type, payload);
  const delivery = await relay.api.untilEnded(eventId);
  return { delivery, attempts: await relay.api.attempts(delivery.deliveryId) };
}

const numbers = ({ attempts }: Story): number[] => attempts.map(({ attemptNumber }) => attemptNumber);
const outcomes = ({ attempts }: Story): string[] => attempts.map(({ outcome }) => outcome);
const plain = ({ headers }: ShownRequest): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));

describe('a request (SPEC D7)', () => {
  it('is verified by the libraries that receivers use, over its exact bytes', async () => {
    const { receiver, secret, type } = await subscribed('signed');
    const text = '{ "n": 9007199254740993, "s": "\\u2028ü" }';
    await relay.api.sendText(type, text);
    await receiver.until((summary) => summary.succeededDeliveries === 1);
    const [request] = receiver.requests();
    for (const webhook of [new StandardWebhook(secret), new SvixWebhook(secret)]) {
      expect(() => webhook.verify(text, plain(request!))).not.toThrow();
      expect(() => webhook.verify(request!.body.replace(' ', ''), plain(request!))).toThrow();
      expect(() => webhook.verify(request!.body, { ...plain(request!), 'webhook-id': 'other' })).toThrow();
    }
    expect(receiver.summary().signatures).toEqual({ ok: 1, failed: 0, unchecked: 0 });
  });

  it('says what it is: delivery, event, type, attempt; with one delivery ID for all its attempts', async () => {
    const { receiver, type } = await subscribed('headers', { status: '500,200' });
    const story = await sent(type);
    const requests = receiver.requests().map(plain);
    expect(requests.map((headers) => headers['x-relayops-attempt'])).toEqual(['1', '2']);
    for (const headers of requests) {
      expect(headers).toMatchObject({
        'x-relayops-delivery-id': story.delivery.deliveryId,
        'webhook-id': story.delivery.deliveryId,
        'x-relayops-event-id': story.delivery.eventId,
        'x-relayops-event-type': type,
        'content-type': 'application/json',
      });
      expect(headers['user-agent']).toMatch(/^RelayOps/);
      expect(Math.abs(Number(headers['webhook-timestamp']) - Date.now() / 1000)).toBeLessThan(30);
    }
    expect(receiver.summary()).toMatchObject({ uniqueDeliveries: 1, changedBodies: 0 });
  });

  it('carries the headers of its endpoint', async () => {
    const headers = { Authorization: 'Bearer hush', 'X-Tenant': 'a b' };
    const { receiver, type } = await subscribed('own-headers', {}, { headers });
    await sent(type);
    expect(plain(receiver.requests()[0]!)).toMatchObject({ authorization: 'Bearer hush', 'x-tenant': 'a b' });
  });

  it('of a large payload is whole', async () => {
    const { receiver, type } = await subscribed('large');
    const text = JSON.stringify({ text: 'ü'.repeat(250_000) });
    await relay.api.sendText(type, text);
    await receiver.until((summary) => summary.succeededDeliveries === 1);
    expect(receiver.requests()[0]!.bodyBytes).toBe(Buffer.byteLength(text));
    expect(receiver.summary().signatures.ok).toBe(1);
  });
});

describe('a secret that was rotated', () => {
  const verifies = (secret: string, request: ShownRequest): boolean => {
    try {
      new StandardWebhook(secret).verify(request.body, plain(request));
      return true;
    } catch {
      return false;
    }
  };

  it('signs beside the new one for the overlap, and no longer after it', async () => {
    const { receiver, endpointId, secret: old, type } = await subscribed('rotated');
    const rotate = (overlapSeconds: number) =>
      relay.api.ok<{ secret: string }>('POST', `/v1/endpoints/${endpointId}/rotate-secret`, {
        overlapSeconds,
      });
    const { secret: second } = await rotate(3_600);
    await sent(type);
    const { secret: third } = await rotate(0);
    await sent(type);
    const [during, after] = receiver.requests();
    expect([old, second].map((secret) => verifies(secret, during!))).toEqual([true, true]);
    expect(plain(during!)['webhook-signature']!.split(' ')).toHaveLength(2);
    expect([old, second, third].map((secret) => verifies(secret, after!))).toEqual([false, false, true]);
  });
});

describe('an attempt that fails (SPEC D3, D4)', () => {
  it('is tried again with rising numbers without gaps, and a growing pause, until it succeeds', async () => {
    const { type } = await subscribed(
      'retried',
      { status: '500,502,503,200' },
      { retry: { maxAttempts: 10, baseMs: 40, factor: 3, capMs: 10_000 } },
    );
    const story = await sent(type);
    expect(story.delivery.state).toBe('succeeded');
    expect(numbers(story)).toEqual([1, 2, 3, 4]);
    expect(outcomes(story)).toEqual(['retryable', 'retryable', 'retryable', 'success']);
    expect(story.attempts.map(({ httpStatus }) => httpStatus)).toEqual([500, 502, 503, 200]);
    story.attempts.slice(0, -1).forEach((attempt, i) => {
      const pauseMs = Date.parse(attempt.nextAttemptAt!) - Date.parse(attempt.recordedAt);
      const bound = 40 * 3 ** i;
      expect(pauseMs).toBeGreaterThanOrEqual(Math.floor(bound * 0.1) - 1);
      expect(pauseMs).toBeLessThanOrEqual(bound + 1);
      // The next attempt does not come before its time.
      expect(Date.parse(story.attempts[i + 1]!.startedAt!)).toBeGreaterThanOrEqual(
        Date.parse(attempt.nextAttemptAt!) - 2,
      );
    });
    expect(story.attempts.at(-1)!.nextAttemptAt).toBeNull();
  });

  it('too often makes the delivery dead', async () => {
    const { receiver, type } = await subscribed('dead', { status: 500 }, { retry: { maxAttempts: 3 } });
    const story = await sent(type);
    expect(story.delivery).toMatchObject({ state: 'dead', reason: 'attempts_exhausted' });
    expect(numbers(story)).toEqual([1, 2, 3]);
    expect(receiver.summary().requests).toBe(3);
  });

  it.each([
    { status: 400, state: 'failed', reason: 'not_retryable', outcome: 'rejected' },
    { status: 401, state: 'failed', reason: 'not_retryable', outcome: 'rejected' },
    { status: 404, state: 'failed', reason: 'not_retryable', outcome: 'rejected' },
    { status: 422, state: 'failed', reason: 'not_retryable', outcome: 'rejected' },
    { status: 410, state: 'failed', reason: 'gone', outcome: 'gone' },
  ])('with $status ends the delivery at once', async ({ status, state, reason, outcome }) => {
    const { receiver, type } = await subscribed(`once-${status}`, { status });
    const story = await sent(type);
    expect(story.delivery).toMatchObject({ state, reason });
    expect(outcomes(story)).toEqual([outcome]);
    expect(receiver.summary().requests).toBe(1);
  });

  it.each([408, 425, 429, 500, 504, 599])('with %i is tried again', async (status) => {
    const { type } = await subscribed(`again-${status}`, { status: `${status},200` });
    const story = await sent(type);
    expect(story.delivery.state).toBe('succeeded');
    expect(outcomes(story)).toEqual(['retryable', 'success']);
  });

  it.each([200, 201, 202, 204])('is none with %i', async (status) => {
    const { type } = await subscribed(`good-${status}`, { status });
    expect((await sent(type)).delivery.state).toBe('succeeded');
  });

  it('with 410 disables its endpoint, whose further deliveries wait', async () => {
    const { receiver, endpointId, type } = await subscribed('gone', { status: 410 });
    await sent(type);
    const endpoint = await relay.api.ok('GET', `/v1/endpoints/${endpointId}`);
    expect(endpoint).toMatchObject({
      state: 'disabled',
      stateReason: expect.stringContaining('410') as string,
    });
    const { eventId } = await relay.api.send(type);
    await sent((await subscribed('gone-not')).type);
    expect((await relay.api.deliveryOf(eventId)).state).toBe('pending');
    expect(receiver.summary().requests).toBe(1);

    receiver.configure({ behaviour: {} });
    await relay.api.ok('POST', `/v1/endpoints/${endpointId}/enable`);
    expect((await relay.api.untilEnded(eventId)).state).toBe('succeeded');
  });

  it('with a redirect is not followed, and the delivery failed', async () => {
    const target = relay.receiver('redirect-target');
    const { type } = await subscribed('redirecting', { redirect: target.url });
    const story = await sent(type);
    expect(story.delivery).toMatchObject({ state: 'failed', reason: 'redirect' });
    expect(story.attempts).toMatchObject([
      { outcome: 'redirected', httpStatus: 302, responseHeaders: { location: target.url } },
    ]);
    expect(target.summary().requests).toBe(0);
  });

  it('keeps the beginning of the answer, and of its headers what explains it', async () => {
    const body = 'because ' + 'x'.repeat(5_000);
    const { type } = await subscribed('kept', { status: 400, body, contentType: 'text/plain' });
    const [attempt] = (await sent(type)).attempts;
    expect(attempt!.responseBody).toBe(body.slice(0, 1_024));
    expect(attempt!.responseHeaders).toMatchObject({ 'content-type': 'text/plain' });
    expect(attempt!.durationMs).toBeGreaterThan(0);
  });

  it('with an answer that no text column can hold is recorded all the same', async () => {
    const { type } = await subscribed('nul', {
      status: 400,
      body: 'a\0b',
      contentType: 'text/plain; a="\xff"',
    });
    const story = await sent(type);
    expect(story.delivery.state).toBe('failed');
    expect(story.attempts[0]!.responseBody).toBe('a\0b');
  });
});

describe('Retry-After', () => {
  const pauseOf = (attempt: Attempt): number =>
    Date.parse(attempt.nextAttemptAt!) - Date.parse(attempt.startedAt!) - attempt.durationMs!;

  const firstPause = async (name: string, status: number, retryAfter: string): Promise<number> => {
    const { receiver, type } = await subscribed(name, { status: `${status},200`, retryAfter });
    const { eventId } = await relay.api.send(type);
    await receiver.until((summary) => summary.requests === 1);
    const { deliveryId } = await relay.api.deliveryOf(eventId);
    const [first] = await until(
      'first attempt recorded',
      () => relay.api.attempts(deliveryId),
      (attempts) => attempts.length > 0,
    );
    return pauseOf(first!);
  };

  it('in seconds is honoured: nothing is sent before', async () => {
    const { receiver, type } = await subscribed('after', { status: '503,200', retryAfter: '1' });
    const story = await sent(type);
    const [first, second] = receiver.requests();
    expect(Date.parse(second!.at) - Date.parse(first!.at)).toBeGreaterThanOrEqual(995);
    expect(numbers(story)).toEqual([1, 2]);
  });

  it('as a date is honoured', async () => {
    const at = new Date(Math.ceil(Date.now() / 1000) * 1000 + 1_000);
    const pauseMs = await firstPause('after-date', 429, at.toUTCString());
    expect(pauseMs).toBeGreaterThan(500);
    expect(pauseMs).toBeLessThanOrEqual(RETRY_AFTER_CAP_MS + 200);
  });

  it('is honoured up to the cap', async () => {
    const pauseMs = await firstPause('after-cap', 503, '86400');
    expect(pauseMs).toBeGreaterThan(RETRY_AFTER_CAP_MS - 100);
    expect(pauseMs).toBeLessThan(RETRY_AFTER_CAP_MS + 500);
  });

  it.each(['inf', '-5', '1e9', 'Tomorrow', '99999999999999999999', ' ', '1;2'])(
    'that is none (%j) is as if it were absent',
    async (retryAfter) => {
      const name = `after-${Buffer.from(retryAfter).toString('hex')}`;
      expect(await firstPause(name, 503, retryAfter)).toBeLessThan(500);
    },
  );
});
