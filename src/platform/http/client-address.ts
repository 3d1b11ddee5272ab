import ipaddr from 'ipaddr.js';

/** An address as long as this is none; the longest has 45 characters, and brackets and a port. */
const MAX_ENTRY_LENGTH = 64;
/** More trusted proxies than a request passes through. */
const MAX_HOPS = 32;

/**
 * What a limit per client should count as one: an IPv4 address, or a whole IPv6 /64, which one subscriber usually has. Text that is
 * no address stays as it is.
 */
export function clientOrigin(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}

/** Whether an address is that of a proxy whose X-Forwarded-For counts. */
export type IsTrusted = (address: string) => boolean;

/** @param list addresses and networks in CIDR notation, as `http.trustedProxies` has them */
export function trustedProxies(list: readonly string[]): IsTrusted {
  const networks = list.map(parseNetwork);
  return (text) => {
    if (networks.length === 0 || !ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    return networks.some(
      ([network, bits]) => address.kind() === network.kind() && address.match(network, bits),
    );
  };
}

/**
 * The client's address: the right-most one of X-Forwarded-For that is no trusted proxy, and the peer itself when that is none.
 * An entry that is no address ends the list, because nothing to the left of it can be relied on.
 * @param peer address of the socket
 * @param forwarded X-Forwarded-For; several header lines are one list
 */
export function clientAddress(
  peer: string,
  forwarded: string | readonly string[] | undefined,
  isTrusted: IsTrusted,
): string {
  if (forwarded === undefined || !isTrusted(peer)) return peer;
  let list = typeof forwarded === 'string' ? forwarded : forwarded.join(',');
  let nearest = peer;
  for (let hop = 0; hop < MAX_HOPS && list !== ''; hop++) {
    const comma = list.lastIndexOf(',');
    const address = addressOf(list.slice(comma + 1));
    if (address === undefined) return nearest;
    nearest = address;
    if (!isTrusted(address)) return nearest;
    list = list.slice(0, Math.max(0, comma));
  }
  return nearest;
}

/** Some proxies add the port, and brackets around IPv6. */
function addressOf(entry: string): string | undefined {
  const text = entry.trim();
  if (text.length > MAX_ENTRY_LENGTH) return undefined;
  const bare = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  const isAddress = ipaddr.IPv4.isValidFourPartDecimal(bare) || ipaddr.IPv6.isValid(bare);
  return isAddress ? ipaddr.process(bare).toString() : undefined;
}

/** @throws Error for text that is no network: the configuration has been checked before */
function parseNetwork(text: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const [address = '', bits] = text.split('/');
  const parsed = ipaddr.parse(address);
  const most = parsed.kind() === 'ipv4' ? 32 : 128;
  const length = bits === undefined ? most : Number(bits);
  const isMapped = parsed instanceof ipaddr.IPv6 && parsed.isIPv4MappedAddress() && length >= 96;
  return isMapped ? [parsed.toIPv4Address(), length - 96] : [parsed, length];
}
