import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, it } from 'vitest';
import { Relay } from '../../test/support/relay.ts';

it('a connection that says nothing takes neither the time of a stop nor that of requests in flight (SPEC J4)', async () => {
  const timeoutMs = 20_000;
  const relay = await Relay.start({ 'shutdown.timeoutMs': timeoutMs, 'delivery.endpointConcurrency': 2 });
  const { hostname, port } = new URL(relay.process.url);
  const silent = connect(Number(port), hostname).on('error', () => undefined);
  try {
    await once(silent, 'connect');
    const receiver = relay.receiver('silent');
    receiver.configure({ behaviour: { latencyMs: 100 } });
    await relay.api.endpoint(receiver.url, '*');
    await relay.api.sendMany('stop.one', 100);
    await receiver.until(({ requests }) => requests >= 2);
    const before = receiver.summary().requests;
    const started = performance.now();
    await relay.process.stop();
    expect(performance.now() - started).toBeLessThan(timeoutMs / 2);
    // Only what had been claimed already was sent, and all of it was heard to its end.
    const { requests, answers } = receiver.summary();
    expect(requests - before).toBeLessThanOrEqual(4);
    expect(answers).toEqual({ 200: requests });
    expect(await relay.count('delivery_attempts', `outcome <> 'success'`)).toBe(0);
    expect(await relay.count('delivery_work', 'lease_token IS NOT NULL')).toBe(0);
  } finally {
    silent.destroy();
    await relay.close();
  }
});
