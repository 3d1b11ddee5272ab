/**
 * What kind of thing an IP address is, without any judgement: its range in IANA's special-purpose registries (as ipaddr.js
 * has them) and the IPv4 address that some IPv6 forms carry.
 */
import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** A parsed address of either family. */
export type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Strict spellings only (no octal, hex or short forms); a zone index is split off. */
export function parseAddress(ip: string): { address: Address; zone: string | undefined } | undefined {
  if (isIPv4(ip)) return { address: ipaddr.IPv4.parse(ip), zone: undefined };
  if (!isIPv6(ip)) return undefined;
  const [text = '', zone] = ip.split('%', 2);
  return { address: ipaddr.IPv6.parse(hexTail(text)), zone };
}

/** `::1.2.3.4` → `::102:304`, because ipaddr.js takes the dotted form of an IPv4-compatible address for a mapped one. */
function hexTail(ipv6: string): string {
  const at = ipv6.lastIndexOf(':') + 1;
  if (!isIPv4(ipv6.slice(at))) return ipv6;
  const [a = 0, b = 0, c = 0, d = 0] = ipv6.slice(at).split('.').map(Number);
  return `${ipv6.slice(0, at)}${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`;
}

/** Is the address inside the network? Never, when one is IPv4 and the other IPv6. */
export function within(address: Address, network: Address, prefixLength: number): boolean {
  return address.kind() === network.kind() && address.match(network, prefixLength);
}

const network = (cidr: string): readonly [Address, number] => ipaddr.parseCIDR(cidr);
const MAPPED = network('::ffff:0:0/96');
const COMPATIBLE = network('::/96');
const LOWEST_COMPATIBLE = 0x1_0000;
const GLOBAL_UNICAST = network('2000::/3');

/** Is it `::ffff:a.b.c.d`, which sockets of both families use for IPv4 peers? */
export function isMappedIpv4(address: Address): boolean {
  return within(address, ...MAPPED);
}

const ipv4At = (parts: readonly number[], at: number, flip = 0): ipaddr.IPv4 => {
  const high = (parts[at] ?? 0) ^ flip;
  const low = (parts[at + 1] ?? 0) ^ flip;
  return new ipaddr.IPv4([high >> 8, high & 0xff, low >> 8, low & 0xff]);
};

const TUNNELS: readonly {
  readonly form: string;
  readonly network: readonly [Address, number];
  readonly ipv4: (parts: readonly number[]) => ipaddr.IPv4;
}[] = [
  { form: 'IPv4-translated (RFC 2765)', network: network('::ffff:0:0:0/96'), ipv4: (p) => ipv4At(p, 6) },
  { form: 'IPv4/IPv6 translation (NAT64)', network: network('64:ff9b::/96'), ipv4: (p) => ipv4At(p, 6) },
  { form: 'IPv6-over-IPv4 (6to4)', network: network('2002::/16'), ipv4: (p) => ipv4At(p, 1) },
  { form: 'IPv6-over-UDP (Teredo)', network: network('2001::/32'), ipv4: (p) => ipv4At(p, 6, 0xffff) },
];

/** An IPv4 address inside an IPv6 one. */
export interface Carried {
  readonly form: string;
  readonly ipv4: ipaddr.IPv4;
  /** `same`: the socket speaks IPv4 to the carried address. `tunnel`: refused as such. `host`: an ordinary address otherwise. */
  readonly rule: 'same' | 'tunnel' | 'host';
}

/** The IPv4 address inside, for the forms whose layout is fixed. `::` and `::1` carry none. */
export function carriedIpv4(address: Address): Carried | undefined {
  if (!(address instanceof ipaddr.IPv6)) return undefined;
  const { parts } = address;
  if (isMappedIpv4(address)) return { form: 'IPv4-mapped', ipv4: ipv4At(parts, 6), rule: 'same' };
  if (within(address, ...COMPATIBLE) && (parts[6] ?? 0) * LOWEST_COMPATIBLE + (parts[7] ?? 0) > 1)
    return { form: 'IPv4-compatible', ipv4: ipv4At(parts, 6), rule: 'tunnel' };
  const tunnel = TUNNELS.find((t) => within(address, ...t.network));
  if (tunnel) return { form: tunnel.form, ipv4: tunnel.ipv4(parts), rule: 'tunnel' };
  // ISATAP (RFC 5214, section 6.1): interface identifier 0000:5efe or, with the universal bit, 0200:5efe, under any prefix.
  if (((parts[4] ?? 0) & 0xfcff) === 0 && parts[5] === 0x5efe)
    return { form: 'intra-site tunnel (ISATAP)', ipv4: ipv4At(parts, 6), rule: 'host' };
  return undefined;
}

/** Named here so that the refusal says what they are; Azure's is in no special range at all. */
const METADATA = new Map([
  ['169.254.169.254', 'a cloud metadata address'],
  ['100.100.100.200', 'a cloud metadata address (Alibaba Cloud)'],
  ['168.63.129.16', 'a cloud metadata address (Azure)'],
  ['192.0.0.192', 'a cloud metadata address (Oracle Cloud)'],
  ['fd00:ec2::254', 'a cloud metadata address (AWS)'],
  ['fd20:ce::254', 'a cloud metadata address (Google Cloud)'],
]);

const KINDS: Readonly<Record<string, string>> = {
  unspecified: 'an unspecified address',
  loopback: 'a loopback address',
  linkLocal: 'a link-local address',
  private: 'a private address',
  uniqueLocal: 'a unique local address',
  deprecatedSiteLocal: 'a site-local address',
  carrierGradeNat: 'a carrier-grade NAT address',
  multicast: 'a multicast address',
  broadcast: 'the broadcast address',
  reserved: 'a reserved, documentation or benchmarking address',
  benchmarking: 'a benchmarking address',
  rfc6052: 'a local-use NAT64 address',
};

/** What is special about the address, or undefined when it is an ordinary public one. */
export function specialKind(address: Address): string | undefined {
  const metadata = METADATA.get(address.toString());
  if (metadata !== undefined) return metadata;
  const range: string = address.range();
  if (range !== 'unicast') return KINDS[range] ?? `a special-purpose address (${range})`;
  if (address.kind() === 'ipv6' && !within(address, ...GLOBAL_UNICAST))
    return 'outside global unicast space (2000::/3)';
  return undefined;
}
