import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../src/platform/db/embedded.ts';
import type { BehaviourInput } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { Attempt, Delivery } from '../support/relay-client.ts';

const TIMEOUT_MS = 300;
/** For answers that this process takes its time to make. */
const AMPLE_MS = 3_000;
/** What an attempt may take beyond its deadline on a busy machine. */
const SLACK_MS = 700;
const MAX_RESPONSE_BYTES = 65_536;

let relay: Relay;
const closers: (() => void)[] = [];

beforeAll(async () => {
  relay = await Relay.start({ 'delivery.maxResponseBytes': MAX_RESPONSE_BYTES });
});
afterAll(async () => {
  for (const close of closers) close();
  await relay.close();
});

interface Story {
  readonly delivery: Delivery;
  readonly attempts: readonly Attempt[];
}

/** What a test is about, as a name of receivers and event types. */
const nameOf = (what: string): string => what.replaceAll(/[^A-Za-z0-9]/g, '_');

/** Delivers one event to a URL, with two attempts at most. */
async function delivered(name: string, url: string, timeoutMs = TIMEOUT_MS): Promise<Story> {
  const retry = { maxAttempts: 2 };
  await relay.api.endpoint(url, `${name}.one`, { timeoutMs, retry });
  const { eventId } = await relay.api.send(`${name}.one`, { n: 1 });
  const delivery = await relay.api.untilEnded(eventId);
  return { delivery, attempts: await relay.api.attempts(delivery.deliveryId) };
}

/** A server that writes `answer` to everybody who sends something. */
async function rawServer(answer: (socket: Socket) => void): Promise<string> {
  const server: Server = createServer((socket) => {
    // The other side going away is what some of these provoke.
    socket.on('error', () => socket.destroy());
    socket.once('data', () => answer(socket));
    closers.push(() => socket.destroy());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closers.push(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

const retriedTo = (story: Story, code: string): void => {
  expect(story.delivery).toMatchObject({ state: 'dead', reason: 'attempts_exhausted' });
  expect(story.attempts.map(({ outcome, errorCode }) => [outcome, errorCode])).toEqual([
    ['retryable', code],
    ['retryable', code],
  ]);
  for (const { durationMs } of story.attempts) expect(durationMs).toBeLessThan(TIMEOUT_MS + SLACK_MS);
};

describe('a receiver (SPEC D9)', () => {
  it.each<[string, BehaviourInput, string]>([
    ['hangs', { hang: true }, 'timeout'],
    ['drips its body', { dripMs: 100 }, 'timeout'],
    ['drips a body that never ends', { endless: true, dripMs: 50 }, 'timeout'],
    ['is slower than the deadline', { latencyMs: TIMEOUT_MS * 4 }, 'timeout'],
    ['resets the connection after its headers', { reset: true }, 'connection_reset'],
    ['drops the connection', { drop: 1 }, 'connection_reset'],
  ])('that %s costs an attempt its time and no more, and is tried again', async (what, behaviour, code) => {
    const receiver = relay.receiver(nameOf(what));
    receiver.configure({ behaviour });
    retriedTo(await delivered(receiver.name, receiver.url), code);
    expect(receiver.summary().requests).toBe(2);
  });

  it.each<[string, BehaviourInput]>([
    ['a body that never ends', { endless: true }],
    ['a body of 50 MB', { bodyBytes: 50_000_000 }],
    ['a compressed body that becomes 1 GiB', { bomb: true }],
    ['a compressed body that becomes 1 GiB (br)', { bomb: true, encoding: 'br' }],
    ['a compressed body that never ends', { endless: true, encoding: 'gzip' }],
  ])('with %s is read up to the limit, and its status counts', async (what, behaviour) => {
    const receiver = relay.receiver(nameOf(what));
    receiver.configure({ behaviour });
    const before = process.memoryUsage().rss;
    const story = await delivered(receiver.name, receiver.url, AMPLE_MS);
    expect(story.delivery.state).toBe('succeeded');
    expect(story.attempts).toMatchObject([
      { outcome: 'success', httpStatus: 200, errorDetail: 'The response body was cut off at the limit.' },
    ]);
    expect(process.memoryUsage().rss - before).toBeLessThan(200_000_000);
  });

  it('that is not there is tried again', async () => {
    retriedTo(await delivered('absent', `http://127.0.0.1:${await freePort()}/`), 'connection_refused');
  });

  it.each<[string, string]>([
    ['answers no HTTP', 'what do you want\r\n'],
    ['answers a status that is none', 'HTTP/1.1 abc OK\r\n\r\n'],
    ['smuggles a line break', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok'],
    ['has headers of a megabyte', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(1_000_000)}\r\n\r\n`],
  ])('that %s is a protocol error, and is tried again', async (what, answer) => {
    const url = await rawServer((socket) => socket.write(answer));
    const story = await delivered(nameOf(what), url);
    retriedTo(story, 'protocol');
  });

  it('that sends one interim answer after the other costs an attempt its time', async () => {
    const url = await rawServer((socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 20);
      socket.on('close', () => clearInterval(timer));
    });
    retriedTo(await delivered('interim', url), 'timeout');
  });

  it('that breaks off its compressed body is heard by its status', async () => {
    const url = await rawServer((socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope'),
    );
    expect((await delivered('no_gzip', url)).delivery.state).toBe('succeeded');
  });

  it('that speaks no TLS where it should is tried again', async () => {
    const url = await rawServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'));
    const story = await delivered('no_tls', url.replace('http:', 'https:'));
    expect(story.delivery.state).toBe('dead');
    expect(story.attempts.map(({ outcome }) => outcome)).toEqual(['retryable', 'retryable']);
  });

  it('among the worst does not keep the worker from the others', async () => {
    const behaviours: BehaviourInput[] = [
      { hang: true },
      { drop: 1 },
      { reset: true },
      { bomb: true },
      { endless: true, dripMs: 20 },
    ];
    for (const [i, behaviour] of behaviours.entries()) {
      const receiver = relay.receiver(`worst-${i}`);
      receiver.configure({ behaviour });
      await relay.api.endpoint(receiver.url, 'all.*', { timeoutMs: TIMEOUT_MS, retry: { maxAttempts: 2 } });
    }
    const well = relay.receiver('well');
    await relay.api.endpoint(well.url, 'all.*');
    await relay.api.sendMany('all.one', 40);
    await well.until((summary) => summary.succeededDeliveries === 40);
    await relay.api.untilSettled(20_000);
    const { deliveries } = await relay.api.stats();
    expect(deliveries['open'] ?? 0).toBe(0);
    expect((await relay.admin.call('GET', '/livez')).status).toBe(200);
  });
});
