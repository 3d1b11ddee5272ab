/**
 * The SSRF guard: which addresses and URLs an outbound request may go to. Pure. judgeUrl looks at the text when an URL is
 * saved; judgeAddress is applied by the connector to the address that is really dialled, because what is behind a name may
 * change at any time. The guard cannot know a NAT64 prefix that a network chose from its own global space: such a network
 * must filter on its translator.
 */
import { isIP, isIPv4 } from 'node:net';
import {
  type Address,
  type Carried,
  carriedIpv4,
  isMappedIpv4,
  parseAddress,
  specialKind,
  within,
} from './special-addresses.ts';

/** Addresses (and, when set, the one port) that the guard lets through although it would refuse them. */
export interface AllowRule {
  readonly network: Address;
  readonly prefixLength: number;
  readonly port: number | undefined;
}

export interface AllowListProblem {
  readonly entry: string;
  readonly reason: string;
  readonly fix: string;
}

/** Thrown by parseAllowList with every bad entry at once. */
export class AllowListError extends Error {
  readonly code = 'ALLOW_LIST_INVALID';
  readonly problems: readonly AllowListProblem[];

  constructor(problems: readonly AllowListProblem[]) {
    super(problems.map((p) => `"${p.entry}" ${p.reason}. ${p.fix}`).join(' '));
    this.name = 'AllowListError';
    this.problems = problems;
  }
}

/** `reason` starts with the address: "127.0.0.1 is a loopback address". */
export type AddressVerdict = { readonly ok: true } | { readonly ok: false; readonly reason: string };

const ALLOWED: AddressVerdict = { ok: true };
const MAX_PORT = 65_535;
const ENTRY = /^(?:\[([^[\]]*)\]|([^[\]/]*))\/(\d{1,3})(?::(\d{1,5}))?$/;
const ENTRY_FIX = 'Write CIDR or CIDR:port, for example 10.1.0.0/16, 127.0.0.1/32:9000 or [::1]/128:9000.';

/**
 * Reads allow-list entries: `CIDR` or `CIDR:port`; an IPv6 network may stand in brackets. Bits after the prefix are ignored.
 * @throws AllowListError naming every bad entry
 */
export function parseAllowList(list: readonly string[]): AllowRule[] {
  const problems: AllowListProblem[] = [];
  const rules: AllowRule[] = [];
  for (const entry of list) {
    const rule = parseEntry(entry.trim());
    if (typeof rule === 'string') problems.push({ entry, reason: rule, fix: ENTRY_FIX });
    else rules.push(rule);
  }
  if (problems.length > 0) throw new AllowListError(problems);
  return rules;
}

function parseEntry(entry: string): AllowRule | string {
  const match = ENTRY.exec(entry);
  if (!match) return 'is not a network in CIDR notation';
  const [, bracketed, bare, bits, portText] = match;
  const network = parseAddress(bracketed ?? bare ?? '');
  if (!network || network.zone !== undefined || (bracketed !== undefined && isIPv4(bracketed)))
    return 'does not start with an IP address';
  const { address } = network;
  const prefixLength = Number(bits);
  if (prefixLength > (address.kind() === 'ipv4' ? 32 : 128))
    return `has the impossible prefix length ${bits}`;
  if (prefixLength >= 96 && isMappedIpv4(address))
    return 'is an IPv4 network in IPv6 form, and is judged as IPv4';
  const port = portText === undefined ? undefined : Number(portText);
  if (port !== undefined && (port < 1 || port > MAX_PORT)) return `has the impossible port ${portText}`;
  return { network: address, prefixLength, port };
}

/**
 * May a socket be opened to `ip`? Only globally reachable unicast addresses pass (IANA's special-purpose registries, as
 * ipaddr.js has them), and what the allow list covers. An IPv4-mapped address is the IPv4 address that it carries. The other
 * IPv6 forms that carry IPv4 are refused as such; the allow list can open them, and then the carried address must pass too.
 * @param ip an address as sockets and resolvers spell it, no brackets; anything else is refused
 */
export function judgeAddress(ip: string, port: number, allow: readonly AllowRule[]): AddressVerdict {
  const parsed = parseAddress(ip);
  if (!parsed) return { ok: false, reason: `${ip} is not an IP address` };
  const { address, zone } = parsed;
  const carried = carriedIpv4(address);
  if (carried) return judgeCarrier(ip, address, carried, port, allow);
  if (isAllowed(address, port, allow)) return ALLOWED;
  if (zone !== undefined) return { ok: false, reason: `${ip} is bound to one network interface` };
  const kind = specialKind(address);
  return kind === undefined ? ALLOWED : { ok: false, reason: `${ip} is ${kind}` };
}

function judgeCarrier(
  ip: string,
  address: Address,
  { form, ipv4, rule }: Carried,
  port: number,
  allow: readonly AllowRule[],
): AddressVerdict {
  const inner = judgeAddress(ipv4.toString(), port, allow);
  if (!inner.ok) return { ok: false, reason: `${ip} is an ${form} address, and ${inner.reason}` };
  if (rule === 'same' || isAllowed(address, port, allow)) return ALLOWED;
  const kind = rule === 'tunnel' ? `an ${form} address` : specialKind(address);
  return kind === undefined ? ALLOWED : { ok: false, reason: `${ip} is ${kind}` };
}

function isAllowed(address: Address, port: number, allow: readonly AllowRule[]): boolean {
  return allow.some(
    (rule) =>
      (rule.port === undefined || rule.port === port) && within(address, rule.network, rule.prefixLength),
  );
}

/** `reason` and `fix` fit a FieldProblem: the field's name goes in front of the reason. */
export type UrlVerdict =
  | { readonly ok: true; readonly url: URL }
  | { readonly ok: false; readonly reason: string; readonly fix: string };

/** Longest URL taken, in characters, as given and as normalised. */
export const MAX_URL_LENGTH = 2_048;

const MAX_NAME_LENGTH = 253;
const MAX_LABEL_LENGTH = 63;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { 'http:': 80, 'https:': 443 };
const PUBLIC_FIX =
  'Use a public host, or have the operator of this installation allow the address in delivery.allowAddresses.';
const LOOPBACK: readonly string[] = ['127.0.0.1', '::1'];
const GOOGLE_METADATA: readonly string[] = ['169.254.169.254', 'fd20:ce::254'];

/** Names that stand for fixed addresses: they pass when the allow list covers one of them on the port. */
const KNOWN_NAMES = new Map<string, readonly string[]>([
  ['localhost', LOOPBACK],
  ['metadata.google.internal', GOOGLE_METADATA],
  ['metadata.goog', GOOGLE_METADATA],
]);
/** RFC 6762 (`.local`) and ICANN's private-use domain (`.internal`). */
const PRIVATE_SUFFIXES = ['.local', '.internal'] as const;

const refused = (reason: string, fix: string): UrlVerdict => ({ ok: false, reason, fix });

/**
 * Checks an URL before it is saved: http or https, no credentials, no fragment, no character that parsers read differently, a
 * well-formed host that is not known to be private. Odd spellings of addresses (decimal, octal, hex, short, full-width,
 * percent-encoded) are normalised by the WHATWG parser first, so they are judged as what they mean.
 * @returns the normalised URL; save and dial `url.href`, not the text that came in
 */
export function judgeUrl(text: string, allow: readonly AllowRule[]): UrlVerdict {
  if (text.length > MAX_URL_LENGTH) return tooLong();
  // eslint-disable-next-line no-control-regex -- the WHATWG parser drops or rewrites exactly these without a word
  if (/[\u0000-\u0020\u007f\\]/.test(text))
    return refused('has a space, a control character or a backslash', 'Percent-encode it, or remove it.');
  if (!/^https?:\/\//i.test(text))
    return refused('is not an http or https URL', 'Write it in full, starting with https:// or http://.');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (!url) return refused('is not a valid URL', 'Check the host name and the port.');
  if (url.href.length > MAX_URL_LENGTH) return tooLong();
  if (text.includes('#')) return refused('has a fragment, which is never sent', 'Remove the part from # on.');
  if (url.username !== '' || url.password !== '')
    return refused('has credentials in it', 'Remove them and send them as a header.');
  const port = url.port === '' ? (DEFAULT_PORTS[url.protocol] ?? 0) : Number(url.port);
  if (port === 0) return refused('has port 0', 'Name the port that the receiver listens on.');
  return judgeHost(url, url.hostname.replace(/^\[(.*)\]$/, '$1'), port, allow);
}

function tooLong(): UrlVerdict {
  return refused(`is longer than ${MAX_URL_LENGTH} characters`, 'Use a shorter URL.');
}

function judgeHost(url: URL, host: string, port: number, allow: readonly AllowRule[]): UrlVerdict {
  if (isIP(host) !== 0) {
    const verdict = judgeAddress(host, port, allow);
    return verdict.ok ? { ok: true, url } : refused(`is not allowed: ${verdict.reason}`, PUBLIC_FIX);
  }
  if (host.endsWith('.')) return refused('has a host name that ends in a dot', 'Remove the dot.');
  if (!isWellFormed(host))
    return refused(
      'has a host name with an empty or overlong part',
      'Parts have 1 to 63 characters, the name 253 at most.',
    );
  return mayNamePass(host, port, allow)
    ? { ok: true, url }
    : refused(`is not allowed: ${host} is a name for private use`, PUBLIC_FIX);
}

function isWellFormed(name: string): boolean {
  return (
    name.length <= MAX_NAME_LENGTH &&
    name.split('.').every((label) => label.length > 0 && label.length <= MAX_LABEL_LENGTH)
  );
}

function mayNamePass(name: string, port: number, allow: readonly AllowRule[]): boolean {
  const addresses = name.endsWith('.localhost') ? LOOPBACK : KNOWN_NAMES.get(name);
  if (addresses) return addresses.some((address) => judgeAddress(address, port, allow).ok);
  if (!PRIVATE_SUFFIXES.some((suffix) => name.endsWith(suffix) || name === suffix.slice(1))) return true;
  return allow.some((rule) => (rule.port === undefined || rule.port === port) && !isLoopback(rule));
}

/** A rule for this machine alone says nothing about a private network's names. */
function isLoopback({ network }: AllowRule): boolean {
  return network.range() === 'loopback';
}
