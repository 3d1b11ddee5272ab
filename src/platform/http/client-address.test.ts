import { describe, expect, it } from 'vitest';
import { clientAddress, clientOrigin, trustedProxies } from './client-address.ts';

describe('clientAddress', () => {
  const isTrusted = trustedProxies(['10.0.0.0/8', '192.0.2.7', '2001:db8:1::/48', '::ffff:198.51.100.0/120']);

  it.each<[string, string | undefined, string, string]>([
    // peer, X-Forwarded-For, the client
    ['203.0.113.5', '1.2.3.4', '203.0.113.5', 'a peer that is no proxy may say what it likes'],
    ['10.1.1.1', undefined, '10.1.1.1', 'no header'],
    ['10.1.1.1', '', '10.1.1.1', 'an empty header'],
    ['10.1.1.1', '203.0.113.5', '203.0.113.5', 'one proxy'],
    ['10.1.1.1', '1.2.3.4, 203.0.113.5', '203.0.113.5', 'what the client sent stands to the left'],
    ['10.1.1.1', '1.2.3.4, 203.0.113.5, 10.2.2.2, 192.0.2.7', '203.0.113.5', 'several proxies'],
    ['10.1.1.1', '10.9.9.9, 10.2.2.2', '10.9.9.9', 'a client inside the trusted network'],
    ['::ffff:10.1.1.1', '203.0.113.5', '203.0.113.5', 'a peer in mapped form'],
    ['10.1.1.1', '::ffff:203.0.113.5', '203.0.113.5', 'an entry in mapped form'],
    ['198.51.100.9', '203.0.113.5', '203.0.113.5', 'a network in mapped form'],
    ['2001:db8:1:2::3', '2001:DB8:9:0::1', '2001:db8:9::1', 'IPv6'],
    ['10.1.1.1', '[2001:db8:9::1]:4711', '2001:db8:9::1', 'IPv6 with a port'],
    ['10.1.1.1', '203.0.113.5:4711', '203.0.113.5', 'IPv4 with a port'],
    ['10.1.1.1', 'unknown', '10.1.1.1', 'no address'],
    ['10.1.1.1', '203.0.113.5, unknown', '10.1.1.1', 'no address at the right'],
    ['10.1.1.1', 'unknown, 203.0.113.5', '203.0.113.5', 'no address at the left'],
    ['10.1.1.1', '203.0.113.5,', '10.1.1.1', 'an empty entry'],
    ['10.1.1.1', '0x7f000001', '10.1.1.1', 'an address in another notation'],
    ['10.1.1.1', '1', '10.1.1.1', 'a number'],
    ['10.1.1.1', `${'9'.repeat(8_000)}`, '10.1.1.1', 'a long entry'],
    ['10.1.1.1', "'; DROP TABLE users; --", '10.1.1.1', 'anything else'],
    ['', '203.0.113.5', '', 'a socket that is gone'],
  ])('from %j with %j is %j: %s', (peer, forwarded, client, _why) => {
    expect(clientAddress(peer, forwarded, isTrusted)).toBe(client);
  });

  it('reads a bounded number of entries', () => {
    const many = Array.from({ length: 2_000 }, (_, i) => `10.0.${i >> 8}.${i & 255}`);
    expect(clientAddress('10.1.1.1', ['203.0.113.5', ...many].join(','), isTrusted)).toBe('10.0.7.176');
  });

  it('takes several header lines for one list', () => {
    expect(clientAddress('10.1.1.1', ['1.2.3.4', '203.0.113.5, 10.2.2.2'], isTrusted)).toBe('203.0.113.5');
  });

  it('trusts nobody when nothing is configured', () => {
    expect(clientAddress('127.0.0.1', '1.2.3.4', trustedProxies([]))).toBe('127.0.0.1');
  });
});

describe('clientOrigin', () => {
  it('is the /64 of an IPv6 address and the IPv4 address in a mapped one', () => {
    expect(clientOrigin('2001:db8:1:2::1')).toBe(clientOrigin('2001:db8:1:2:ffff::9'));
    expect(clientOrigin('2001:db8:1:2::1')).not.toBe(clientOrigin('2001:db8:1:3::1'));
    expect(clientOrigin('::ffff:192.0.2.1')).toBe(clientOrigin('192.0.2.1'));
  });
});
