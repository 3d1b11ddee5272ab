import { isIP } from 'node:net';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AllowListError, MAX_URL_LENGTH, judgeAddress, judgeUrl, parseAllowList } from './address-guard.ts';

const PORT = 443;

/** address → a word of the reason, or null when it passes without any rule. */
const ADDRESSES: readonly (readonly [string, string | null])[] = [
  // Public ones, at the edges of what is refused.
  ['1.1.1.1', null],
  ['9.255.255.255', null],
  ['11.0.0.0', null],
  ['100.63.255.255', null],
  ['100.128.0.0', null],
  ['126.255.255.255', null],
  ['128.0.0.0', null],
  ['169.253.255.255', null],
  ['169.255.0.0', null],
  ['172.15.255.255', null],
  ['172.32.0.0', null],
  ['192.0.1.0', null],
  ['192.167.255.255', null],
  ['192.169.0.0', null],
  ['198.17.255.255', null],
  ['198.20.0.0', null],
  ['223.255.255.255', null],
  ['2606:4700:4700::1111', null],
  ['2a00:1450:4001:81b::200e', null],
  ['::ffff:1.1.1.1', null],
  ['::ffff:101:101', null],
  // IPv4 by range.
  ['0.0.0.0', 'unspecified'],
  ['0.1.2.3', 'unspecified'],
  ['10.0.0.0', 'private'],
  ['10.255.255.255', 'private'],
  ['172.16.0.1', 'private'],
  ['172.31.255.255', 'private'],
  ['192.168.0.1', 'private'],
  ['100.64.0.1', 'carrier-grade'],
  ['100.127.255.255', 'carrier-grade'],
  ['127.0.0.1', 'loopback'],
  ['127.255.255.254', 'loopback'],
  ['169.254.0.1', 'link-local'],
  ['192.0.0.1', 'reserved'],
  ['192.0.2.1', 'documentation'],
  ['198.51.100.1', 'documentation'],
  ['203.0.113.1', 'documentation'],
  ['192.88.99.1', 'reserved'],
  ['198.18.0.1', 'benchmarking'],
  ['198.19.255.255', 'benchmarking'],
  ['224.0.0.1', 'multicast'],
  ['239.255.255.255', 'multicast'],
  ['240.0.0.1', 'reserved'],
  ['255.255.255.254', 'reserved'],
  ['255.255.255.255', 'broadcast'],
  // Metadata services.
  ['169.254.169.254', 'metadata'],
  ['::ffff:169.254.169.254', 'metadata'],
  ['100.100.100.200', 'metadata'],
  ['168.63.129.16', 'metadata'],
  ['192.0.0.192', 'metadata'],
  ['fd00:ec2::254', 'metadata'],
  ['fd20:ce::254', 'metadata'],
  // IPv6 by range.
  ['::', 'unspecified'],
  ['::1', 'loopback'],
  ['0:0:0:0:0:0:0:1', 'loopback'],
  ['fe80::1', 'link-local'],
  ['febf::1', 'link-local'],
  ['fec0::1', 'site-local'],
  ['fc00::1', 'unique local'],
  ['fdff::1', 'unique local'],
  ['ff02::1', 'multicast'],
  ['100::1', 'special-purpose'],
  ['2001:db8::1', 'documentation'],
  ['3fff::1', 'documentation'],
  ['2001:2::1', 'benchmarking'],
  ['2001:10::1', 'special-purpose'],
  ['2001:20::1', 'special-purpose'],
  ['2001:1::1', 'reserved'],
  ['5f00::1', 'special-purpose'],
  ['4000::1', 'outside global unicast'],
  ['1fff::1', 'outside global unicast'],
  ['64:ff9c::1', 'outside global unicast'],
  // IPv6 that carries IPv4.
  ['::ffff:127.0.0.1', 'IPv4-mapped address, and 127.0.0.1 is a loopback'],
  ['::ffff:7f00:1', 'loopback'],
  ['::ffff:10.0.0.1', 'private'],
  ['::127.0.0.1', 'IPv4-compatible'],
  ['::7f00:1', 'IPv4-compatible'],
  ['::8.8.8.8', 'IPv4-compatible'],
  ['::2', 'IPv4-compatible'],
  ['::ffff:0:127.0.0.1', 'IPv4-translated'],
  ['::ffff:0:8.8.8.8', 'IPv4-translated'],
  ['64:ff9b::127.0.0.1', 'NAT64) address, and 127.0.0.1 is a loopback'],
  ['64:ff9b::a9fe:a9fe', 'metadata'],
  ['64:ff9b::8.8.8.8', 'NAT64'],
  ['64:ff9b:1::8.8.8.8', 'local-use NAT64'],
  ['64:ff9b:1:7f00:1::', 'local-use NAT64'],
  ['2002:7f00:1::', '6to4) address, and 127.0.0.1 is a loopback'],
  ['2002:808:808::1', '6to4'],
  ['2001:0:4136:e378:8000:63bf:80ff:fffe', 'Teredo) address, and 127.0.0.1 is a loopback'],
  ['2001:0:4136:e378:8000:63bf:3fff:fdd2', 'Teredo'],
  ['2a00:1450::5efe:10.0.0.1', 'ISATAP) address, and 10.0.0.1 is a private'],
  ['2a00:1450::200:5efe:127.0.0.1', 'ISATAP'],
  ['2a00:1450::5efe:8.8.8.8', null],
  ['fe80::5efe:8.8.8.8', 'link-local'],
  // Not what a socket or a resolver would say.
  ['2606:4700::1%eth0', 'one network interface'],
  ['fe80::1%eth0', 'one network interface'],
  ['', 'not an IP address'],
  ['localhost', 'not an IP address'],
  ['[::1]', 'not an IP address'],
  ['127.1', 'not an IP address'],
  ['0177.0.0.1', 'not an IP address'],
  ['0x7f.0.0.1', 'not an IP address'],
  ['2130706433', 'not an IP address'],
  ['127.0.0.1.', 'not an IP address'],
  ['1.1.1.1/32', 'not an IP address'],
  [' 1.1.1.1', 'not an IP address'],
];

describe('judgeAddress', () => {
  it.each(ADDRESSES)('%s → %s', (ip, word) => {
    const verdict = judgeAddress(ip, PORT, []);
    if (word === null) expect(verdict).toEqual({ ok: true });
    else expect(verdict).toMatchObject({ ok: false, reason: expect.stringContaining(word) as string });
  });

  it.each([
    ['127.0.0.1', 9000, '127.0.0.1/32:9000', true],
    ['127.0.0.1', 9001, '127.0.0.1/32:9000', false],
    ['127.0.0.2', 9000, '127.0.0.1/32:9000', false],
    ['127.9.9.9', 1, '127.0.0.0/8', true],
    ['::ffff:127.0.0.1', 9000, '127.0.0.1/32:9000', true],
    ['::1', 9000, '127.0.0.1/32:9000', false],
    ['::1', 9000, '[::1]/128:9000', true],
    ['::1', 9000, '::1/128', true],
    ['fd00::5', 80, 'fd00::/8', true],
    ['10.0.0.1', 80, '0.0.0.0/0', true],
    ['::ffff:10.0.0.1', 80, '::/0', false],
    ['10.0.0.1', 80, '::/0', false],
    ['64:ff9b::8.8.8.8', 80, '64:ff9b::/96', true],
    ['64:ff9b::127.0.0.1', 80, '64:ff9b::/96', false],
    ['64:ff9b:1::1', 80, '64:ff9b:1::/48', true],
    ['fe80::1%eth0', 80, 'fe80::/10', true],
  ])('%s port %i with the rule %s → %s', (ip, port, rule, ok) => {
    expect(judgeAddress(ip, port, parseAllowList([rule])).ok).toBe(ok);
  });

  it('judges an IPv4 address and its mapped form alike', () => {
    fc.assert(
      fc.property(fc.ipV4(), (ip) => {
        expect(judgeAddress(`::ffff:${ip}`, PORT, []).ok).toBe(judgeAddress(ip, PORT, []).ok);
      }),
    );
  });

  it('passes no IPv6 address outside 2000::/3 and no form that tunnels', () => {
    const refusedPrefix = fc.constantFrom(
      '64:ff9b::',
      '2002:',
      '2001:0:',
      '::',
      '::ffff:0:',
      'fe80::',
      '4000::',
    );
    fc.assert(
      fc.property(refusedPrefix, fc.ipV4(), (prefix, ip) => {
        const [a = 0, b = 0, c = 0, d = 0] = ip.split('.').map(Number);
        const hex = `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
        const text = `${prefix}${hex}${prefix.endsWith('::') || prefix.startsWith('::') ? '' : '::1'}`;
        expect(isIP(text)).toBe(6);
        expect(judgeAddress(text, PORT, []).ok).toBe(false);
      }),
    );
  });

  it('passes only what Node takes for an address, whatever the spelling of IPv6', () => {
    const spellings = fc.oneof(fc.ipV6(), fc.ipV4(), fc.string({ maxLength: 40 }));
    fc.assert(
      fc.property(spellings, (text) => {
        const verdict = judgeAddress(text, PORT, []);
        if (verdict.ok) expect(isIP(text)).not.toBe(0);
        if (isIP(text) === 6) {
          const short = new URL(`http://[${text}]`).hostname.slice(1, -1);
          expect(judgeAddress(short, PORT, []).ok).toBe(verdict.ok);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('parseAllowList', () => {
  it('names every bad entry with a reason and a fix', () => {
    const bad = ['10.0.0.0', 'localhost/8', '10.0.0.0/33', '::1/129', '127.0.0.1/32:0', '127.0.0.1/32:65536'];
    bad.push('0177.0.0.1/32', '[127.0.0.1]/32', '[::1/128', '::1%lo/128', '::ffff:127.0.0.1/128', '', '/8');
    const attempt = (): unknown => parseAllowList(['10.0.0.0/8', ...bad]);
    expect(attempt).toThrow(AllowListError);
    try {
      attempt();
    } catch (error) {
      const { problems, code } = error as AllowListError;
      expect(code).toBe('ALLOW_LIST_INVALID');
      expect(problems.map((p) => p.entry)).toEqual(bad);
      expect(problems.every((p) => p.reason !== '' && p.fix !== '')).toBe(true);
    }
  });

  it('never throws anything else', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.oneof(
            fc.string(),
            fc.tuple(fc.ipV6(), fc.nat()).map((t) => t.join('/')),
          ),
        ),
        (list) => {
          try {
            expect(parseAllowList(list)).toHaveLength(list.length);
          } catch (error) {
            expect(error).toBeInstanceOf(AllowListError);
          }
        },
      ),
    );
  });
});

describe('judgeUrl', () => {
  const LOCAL = ['127.0.0.1/32:9000'];

  it.each([
    ['https://example.com', 'https://example.com/'],
    ['HTTPS://EXAMPLE.com:443/a?b=c', 'https://example.com/a?b=c'],
    ['http://example.com:8080/%7Bx%7D', 'http://example.com:8080/%7Bx%7D'],
    ['https://bücher.example/', 'https://xn--bcher-kva.example/'],
    ['https://example。com/', 'https://example.com/'],
    ['https://1.1.1.1/', 'https://1.1.1.1/'],
    ['https://16843009/', 'https://1.1.1.1/'],
    ['https://[2606:4700:4700::1111]:8443/', 'https://[2606:4700:4700::1111]:8443/'],
    ['https://127.0.0.1.example.com/', 'https://127.0.0.1.example.com/'],
    ['https://notlocalhost/', 'https://notlocalhost/'],
    ['https://example.com/?email=a@b.c', 'https://example.com/?email=a@b.c'],
  ])('takes %s as %s', (text, href) => {
    const verdict = judgeUrl(text, []);
    expect(verdict.ok && verdict.url.href).toBe(href);
  });

  it.each([
    ['ftp://example.com/', 'http or https'],
    ['file:///etc/passwd', 'http or https'],
    ['gopher://example.com/', 'http or https'],
    ['javascript:alert(1)', 'http or https'],
    ['//example.com/', 'http or https'],
    ['https:example.com', 'http or https'],
    ['example.com', 'http or https'],
    ['', 'http or https'],
    [' https://example.com/', 'space'],
    ['https://example.com/\n', 'control character'],
    ['ht\ttps://example.com/', 'control character'],
    ['https:\\\\example.com', 'backslash'],
    ['https://example.com\\@127.0.0.1/', 'backslash'],
    ['https://', 'valid URL'],
    ['https://exa<mple.com/', 'valid URL'],
    ['https://example.com:99999/', 'valid URL'],
    ['https://256.1.1.1/', 'valid URL'],
    ['https://1.2.3.4.5/', 'valid URL'],
    ['https://127.0.0.1%00.example.com/', 'valid URL'],
    ['https://[fe80::1%25eth0]/', 'valid URL'],
    ['https://[::1]x/', 'valid URL'],
    ['https://user@example.com/', 'credentials'],
    ['https://user:pass@example.com/', 'credentials'],
    ['https://:pass@example.com/', 'credentials'],
    ['https://example.com/#', 'fragment'],
    ['https://example.com/#a', 'fragment'],
    ['https://example.com:0/', 'port 0'],
    [`https://example.com/${'a'.repeat(MAX_URL_LENGTH)}`, 'longer than 2048'],
    [`https://example.com/${'ü'.repeat(MAX_URL_LENGTH / 2)}`, 'longer than 2048'],
    ['https://example.com./', 'ends in a dot'],
    ['https://localhost./', 'ends in a dot'],
    ['https://example..com/', 'empty or overlong'],
    ['https://.example.com/', 'empty or overlong'],
    [`https://${'a'.repeat(64)}.com/`, 'empty or overlong'],
    [`https://${'a.'.repeat(127)}com/`, 'empty or overlong'],
    // One address, many spellings.
    ['http://127.0.0.1/', 'loopback'],
    ['http://127.0.0.1./', 'loopback'],
    ['http://127.1/', 'loopback'],
    ['http://2130706433/', 'loopback'],
    ['http://0x7f000001/', 'loopback'],
    ['http://0x7f.1/', 'loopback'],
    ['http://0177.0.0.1/', 'loopback'],
    ['http://017700000001/', 'loopback'],
    ['http://%31%32%37.0.0.1/', 'loopback'],
    ['http://１２７.０.０.１/', 'loopback'],
    ['http://①②⑦.⓪.⓪.①/', 'loopback'],
    ['http://127。0。0。1/', 'loopback'],
    ['http://0/', 'unspecified'],
    ['http://0x/', 'unspecified'],
    ['http://[::1]/', 'loopback'],
    ['http://[0000::0001]/', 'loopback'],
    ['http://[::ffff:127.0.0.1]/', 'loopback'],
    ['http://[64:ff9b::7f00:1]/', 'loopback'],
    ['http://169.254.169.254/latest/meta-data/', 'metadata'],
    ['http://2852039166/', 'metadata'],
    ['http://[fd00:ec2::254]/', 'metadata'],
    // Names.
    ['http://localhost/', 'private use'],
    ['http://LOCALHOST:9001/', 'private use'],
    ['http://ｌｏｃａｌｈｏｓｔ/', 'private use'],
    ['http://%6cocalhost/', 'private use'],
    ['http://a.b.localhost/', 'private use'],
    ['http://printer.local/', 'private use'],
    ['http://local/', 'private use'],
    ['http://db.internal:9000/', 'private use'],
    ['http://metadata.google.internal/', 'private use'],
    ['http://metadata.goog:9000/', 'private use'],
  ])('refuses %s: %s', (text, word) => {
    expect(judgeUrl(text, parseAllowList(LOCAL))).toMatchObject({
      ok: false,
      reason: expect.stringContaining(word) as string,
      fix: expect.stringMatching(/\.$/) as string,
    });
  });

  it.each([
    ['http://127.0.0.1:9000/r/a', LOCAL],
    ['http://2130706433:9000/r/a', LOCAL],
    ['http://localhost:9000/r/a', LOCAL],
    ['http://api.localhost:9000/', LOCAL],
    ['http://[::1]:9000/', ['[::1]/128:9000']],
    ['http://localhost:9000/', ['[::1]/128:9000']],
    ['http://localhost/', ['127.0.0.0/8']],
    ['http://10.1.2.3/', ['10.0.0.0/8']],
    ['http://orders.internal/', ['10.0.0.0/8']],
    ['http://metadata.google.internal/', ['169.254.169.254/32:80']],
  ])('takes %s when %s is allowed', (text, allow) => {
    expect(judgeUrl(text, parseAllowList(allow)).ok).toBe(true);
  });

  it('gives back an URL that it takes again, unchanged', () => {
    fc.assert(
      fc.property(fc.webUrl({ withQueryParameters: true }), (text) => {
        const first = judgeUrl(text, []);
        if (!first.ok) return;
        const second = judgeUrl(first.url.href, []);
        expect(second.ok && second.url.href).toBe(first.url.href);
      }),
    );
  });

  it('never throws', () => {
    fc.assert(fc.property(fc.string(), (text) => void judgeUrl(`http://${text}`, [])));
  });
});
