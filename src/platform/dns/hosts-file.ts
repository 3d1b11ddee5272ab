import type { LookupAddress } from 'node:dns';
import { isIP } from 'node:net';

const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/** Names in lower case, each with its addresses in the order of the file. */
export type Hosts = ReadonlyMap<string, readonly LookupAddress[]>;

/** Reads the form of hosts(5): `address name alias… # comment`. Lines that do not start with an address are skipped. */
export function parseHosts(text: string): Hosts {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.split('#', 1)[0]!.trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of names) {
      const addresses = hosts.get(name.toLowerCase());
      if (addresses === undefined) hosts.set(name.toLowerCase(), [{ address, family }]);
      else if (!addresses.some((known) => known.address === address)) addresses.push({ address, family });
    }
  }
  return hosts;
}

/**
 * The addresses of a name that no name server is asked for: what the hosts file says, and loopback for `localhost` and
 * `*.localhost` (RFC 6761, section 6.3).
 * @param name in lower case, without a final dot
 */
export function localAddresses(name: string, hosts: Hosts): readonly LookupAddress[] | undefined {
  return hosts.get(name) ?? (name === 'localhost' || name.endsWith('.localhost') ? LOOPBACK : undefined);
}
