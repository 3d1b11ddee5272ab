import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { brotliDecompressSync, createGunzip, gunzipSync, inflateSync } from 'node:zlib';
import { Webhook } from 'standardwebhooks';
import { Agent, type Dispatcher, request } from 'undici';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SettingsError } from './behaviour.ts';
import { type SimulatedReceiver, type Simulator, startSimulator } from './simulator.ts';

let simulator: Simulator;
let receiver: SimulatedReceiver;
let agent: Agent;
let made = 0;

beforeAll(async () => {
  simulator = await startSimulator();
});
afterAll(() => simulator.close());
beforeEach(() => {
  receiver = simulator.receiver(`test-${(made += 1)}`);
  agent = new Agent();
});
afterEach(() => agent.destroy());

interface Sent {
  readonly query?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string | Buffer;
}

function post({ query = '', headers = {}, body = '{}' }: Sent = {}): Promise<Dispatcher.ResponseData> {
  return request(`${receiver.url}${query}`, { method: 'POST', headers, body, dispatcher: agent });
}

async function statusOf(sent?: Sent): Promise<number> {
  const response = await post(sent);
  await response.body.dump();
  return response.statusCode;
}

const delivery = (id: string, more: Record<string, string> = {}): Record<string, string> => ({
  'x-relayops-delivery-id': id,
  ...more,
});

describe('answers', () => {
  it('is healthy by default', async () => {
    const response = await post();
    expect(response.statusCode).toBe(200);
    expect(response.headers['content-type']).toBe('application/json');
    expect(await response.body.json()).toEqual({ ok: true });
  });

  it('goes through a sequence of status codes, from the query or as it is set', async () => {
    const statuses = [];
    for (let n = 0; n < 4; n += 1) statuses.push(await statusOf({ query: '?status=500,429,200' }));
    receiver.configure({ behaviour: { status: [503, 204], loop: true } });
    for (let n = 0; n < 3; n += 1) statuses.push(await statusOf());
    expect(statuses).toEqual([500, 429, 200, 200, 503, 204, 503]);
    expect(receiver.summary().answers).toEqual({ 500: 1, 429: 1, 200: 2, 503: 2, 204: 1 });
  });

  it('fails the first attempts of each delivery when asked', async () => {
    receiver.configure({ behaviour: { status: [500, 200], per: 'delivery' } });
    const statuses = [];
    for (const id of ['a', 'b', 'a', 'b']) statuses.push(await statusOf({ headers: delivery(id) }));
    expect(statuses).toEqual([500, 500, 200, 200]);
  });

  it('answers late', async () => {
    const started = performance.now();
    expect(await statusOf({ query: '?latencyMs=60&jitterMs=10' })).toBe(200);
    expect(performance.now() - started).toBeGreaterThan(55);
  });

  it('fails the same share of the same deliveries in each run', async () => {
    const run = async (): Promise<number[]> => {
      receiver.reset();
      const ids = Array.from({ length: 40 }, (_, n) => `d${n}`);
      return Promise.all(ids.map((id) => statusOf({ query: '?flaky=0.5', headers: delivery(id) })));
    };
    const first = await run();
    expect(new Set(first)).toEqual(new Set([200, 500]));
    expect(await run()).toEqual(first);
  });

  it('redirects', async () => {
    const response = await post({ query: '?redirect=http://169.254.169.254/x' });
    expect([response.statusCode, response.headers.location]).toEqual([302, 'http://169.254.169.254/x']);
  });

  it('sends Retry-After verbatim', async () => {
    const response = await post({ query: '?status=429&retryAfter=Wed,%2021%20Oct%202065%2007:28:00%20GMT' });
    expect(response.headers['retry-after']).toBe('Wed, 21 Oct 2065 07:28:00 GMT');
  });

  it('fills in a body, escaped where it is JSON', async () => {
    const headers = delivery('d"1', {
      'x-relayops-event-id': 'e1',
      'x-relayops-attempt': '2',
      'x-relayops-event-type': 'order.paid',
    });
    const body =
      '{"d":"{{deliveryId}}","e":"{{eventId}}","n":{{attempt}},"t":"{{type}}","c":{{count}},"{{x}}":0}';
    const query = `?body=${encodeURIComponent(body)}`;
    await statusOf({ query, headers });
    const response = await post({ query, headers });
    expect(await response.body.json()).toEqual({
      d: 'd"1',
      e: 'e1',
      n: 2,
      t: 'order.paid',
      c: 2,
      '{{x}}': 0,
    });
    const plain = await post({ query: '?body={{deliveryId}}&contentType=text/plain', headers });
    expect([plain.headers['content-type'], await plain.body.text()]).toEqual(['text/plain', 'd"1']);
  });

  it('sends a large body of the announced size', async () => {
    const response = await post({ query: '?bodyBytes=1000000' });
    expect(response.headers['content-length']).toBe('1000000');
    expect((await response.body.bytes()).length).toBe(1_000_000);
  });

  it('drips', async () => {
    const started = performance.now();
    const response = await post({ query: '?dripMs=10' });
    let pieces = 0;
    for await (const _ of response.body) pieces += 1;
    expect(pieces).toBeGreaterThan(1);
    expect(performance.now() - started).toBeGreaterThan(90);
  });

  it('never ends, until the client has had enough', async () => {
    const response = await post({ query: '?endless=true' });
    let bytes = 0;
    for await (const chunk of response.body) {
      bytes += (chunk as Buffer).length;
      if (bytes > 2_000_000) break;
    }
    expect(response.headers['content-length']).toBeUndefined();
    expect(bytes).toBeGreaterThan(2_000_000);
  });

  it.each([
    ['gzip', gunzipSync],
    ['br', brotliDecompressSync],
    ['deflate', inflateSync],
  ])('compresses with %s', async (encoding, decompress) => {
    const response = await post({ query: `?encoding=${encoding}&bodyBytes=100000` });
    expect(response.headers['content-encoding']).toBe(encoding);
    expect(decompress(await response.body.bytes()).length).toBe(100_000);
    const small = await post({ query: `?encoding=${encoding}` });
    expect(decompress(await small.body.bytes()).toString()).toBe('{"ok":true}');
  });

  it('sends a compression bomb', async () => {
    const response = await post({ query: '?bomb=true' });
    expect(response.headers['content-encoding']).toBe('gzip');
    const packed = await response.body.bytes();
    expect(packed.length).toBeLessThan(2_000_000);
    const unpacked = createGunzip();
    unpacked.end(packed);
    let bytes = 0;
    for await (const chunk of unpacked) {
      bytes += (chunk as Buffer).length;
      if (bytes > 50_000_000) break;
    }
    expect(bytes).toBeGreaterThan(50_000_000);
  });
});

describe('connections that break', () => {
  it('drops without an answer', async () => {
    await expect(post({ query: '?drop=true' })).rejects.toMatchObject({ code: 'UND_ERR_SOCKET' });
    expect(receiver.summary()).toMatchObject({ requests: 1, answers: { dropped: 1 } });
  });

  it('resets after the headers', async () => {
    const { hostname, port } = new URL(receiver.url);
    const socket = connect(Number(port), hostname);
    socket.write(`POST /r/${receiver.name}?reset=true HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n`);
    let text = '';
    socket.on('data', (chunk: Buffer) => void (text += chunk.toString()));
    await expect(once(socket, 'end')).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(text).toMatch(/^HTTP\/1.1 200 OK\r\n/);
    expect(receiver.summary().answers).toEqual({ reset: 1 });
  });

  it('hangs, until the client leaves', async () => {
    const leave = new AbortController();
    const answer = request(`${receiver.url}?hang=true`, {
      method: 'POST',
      dispatcher: agent,
      signal: leave.signal,
    });
    await receiver.until(({ answers }) => answers['hung'] === 1);
    leave.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('notes a client that left before its late answer', async () => {
    const leave = new AbortController();
    const url = `${receiver.url}?latencyMs=3600000`;
    const answer = request(url, { method: 'POST', dispatcher: agent, signal: leave.signal });
    await receiver.until(({ requests }) => requests === 1);
    leave.abort();
    await expect(answer).rejects.toMatchObject({ name: 'AbortError' });
    const { answers } = await receiver.until((summary) => summary.answers['left'] === 1);
    expect(answers).toEqual({ left: 1 });
  });

  it('closes at once, whatever still hangs, drips or waits', async () => {
    const own = await startSimulator();
    const busy = own.receiver('busy');
    const answers = ['hang=true', 'latencyMs=3600000', 'endless=true', 'dripMs=3600000'].map((query) =>
      request(`${busy.url}?${query}`, { method: 'POST', dispatcher: agent })
        .then((response) => response.body.dump({ limit: Infinity }))
        .catch((error: unknown) => error),
    );
    await busy.until(({ requests }) => requests === 4);
    const waiting = busy.until(({ requests }) => requests === 5);
    await Promise.all([own.close(), expect(waiting).rejects.toThrow('the simulator closed')]);
    await own.close();
    await Promise.all(answers);
  });
});

describe('what it counts and keeps', () => {
  it('tells retries, duplicates after success and changed bodies apart', async () => {
    await statusOf({ query: '?status=500', headers: delivery('a') });
    await statusOf({ headers: delivery('a') });
    await statusOf({ headers: delivery('a'), body: '{"changed":true}' });
    await statusOf({ headers: delivery('b') });
    await statusOf({});
    expect(receiver.summary()).toEqual({
      requests: 5,
      uniqueDeliveries: 2,
      succeededDeliveries: 2,
      duplicates: 2,
      duplicatesAfterSuccess: 1,
      changedBodies: 1,
      untracked: 1,
      signatures: { ok: 0, failed: 0, unchecked: 5 },
      answers: { 200: 4, 500: 1 },
    });
    const sha256 = createHash('sha256').update('{}').digest('hex');
    expect(receiver.deliveries()).toEqual([
      ['a', 3, 2, sha256],
      ['b', 1, 1, sha256],
    ]);
    expect(receiver.deliveries({ after: 1 })).toHaveLength(1);
  });

  it('keeps requests with exact bytes, headers, path and end', async () => {
    const body = Buffer.from([0x7b, 0xff, 0x00]);
    await statusOf({ query: '/mch/business?status=404', headers: delivery('a', { 'X-Own': 'Ä' }), body });
    expect(receiver.requests()).toMatchObject([
      {
        seq: 0,
        method: 'POST',
        path: `/r/${receiver.name}/mch/business?status=404`,
        headers: { 'x-relayops-delivery-id': 'a' },
        body: body.toString('base64'),
        bodyEncoding: 'base64',
        sha256: createHash('sha256').update(body).digest('hex'),
        signature: 'unchecked',
        answered: 404,
      },
    ]);
  });

  it('verifies signatures when it has secrets', async () => {
    const [secret, next] = [0, 1].map(() => `whsec_${randomBytes(24).toString('base64')}`) as [
      string,
      string,
    ];
    receiver.configure({ secrets: [secret, next] });
    const signed = (key: string, at: Date): Record<string, string> => ({
      'webhook-id': 'msg_1',
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(key).sign('msg_1', at, '{}'),
    });
    await statusOf({ headers: signed(secret, new Date()) });
    await statusOf({ headers: signed(next, new Date()) });
    await statusOf({ headers: signed(secret, new Date()), body: '{ }' });
    await statusOf({ headers: signed(secret, new Date(0)) });
    await statusOf();
    expect(receiver.summary().signatures).toEqual({ ok: 2, failed: 3, unchecked: 0 });
    expect(receiver.requests().map((r) => r.signature)).toEqual([
      'ok',
      'ok',
      'failed: SIGNATURE_MISMATCH',
      'failed: TIMESTAMP_TOO_OLD',
      'failed: HEADER_MISSING',
    ]);
  });

  it('keeps, verifies and tracks less when told so', async () => {
    const own = await startSimulator({ keep: 0, verify: false, maxDeliveries: 1, maxReceivers: 1 });
    receiver = own.receiver('only');
    receiver.configure({ secrets: [`whsec_${randomBytes(24).toString('base64')}`] });
    await statusOf({ headers: delivery('a') });
    await statusOf({ headers: delivery('b') });
    expect(receiver.requests()).toEqual([]);
    expect(receiver.summary()).toMatchObject({
      uniqueDeliveries: 1,
      untracked: 1,
      signatures: { unchecked: 2 },
    });
    expect(() => own.receiver('another')).toThrow(RangeError);
    receiver.reset();
    await statusOf({ headers: delivery('b') });
    expect(receiver.summary()).toMatchObject({ requests: 1, uniqueDeliveries: 1, untracked: 0 });
    await own.close();
  });

  it('ends a request in what was forgotten by a reset meanwhile', async () => {
    const answer = statusOf({ query: '?latencyMs=20', headers: delivery('a') });
    await receiver.until(({ requests }) => requests === 1);
    receiver.reset();
    expect(await answer).toBe(200);
    expect(receiver.summary()).toMatchObject({ requests: 0, succeededDeliveries: 0, answers: {} });
  });

  it('says what it counted when what was waited for does not come', async () => {
    await expect(receiver.until(() => false, 1)).rejects.toThrow('"requests":0');
  });

  it('refuses settings that make no sense, and then changes nothing', () => {
    const attempt = (): void => receiver.configure({ behaviour: { status: 500 }, secrets: ['secret'] });
    expect(attempt).toThrow(SettingsError);
    receiver.configure({ behaviour: { status: 201 } });
    expect(() => receiver.configure({ behaviour: { flaky: 2 } })).toThrow('flaky');
  });
});
