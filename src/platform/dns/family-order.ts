import type { LookupAddress } from 'node:dns';
import { networkInterfaces } from 'node:os';

const LOOK_EVERY_MS = 30_000;

let ipv6: { readonly isRouted: boolean; readonly untilMs: number } | undefined;

/**
 * IPv6 first when this machine has a global IPv6 address, else IPv4 first, so that a machine without IPv6 does not begin each
 * connection with an address that it cannot reach (RFC 6724, rule 1).
 */
export function orderFamilies(addresses: readonly LookupAddress[]): readonly LookupAddress[] {
  const first = addresses[0]?.family;
  if (addresses.every(({ family }) => family === first)) return addresses;
  const preferred = hasGlobalIpv6(performance.now()) ? 6 : 4;
  return addresses.toSorted((a, b) => Number(b.family === preferred) - Number(a.family === preferred));
}

function hasGlobalIpv6(nowMs: number): boolean {
  if (ipv6 === undefined || ipv6.untilMs <= nowMs) {
    const addresses = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
    const isRouted = addresses.some(({ family, address }) => family === 'IPv6' && /^[23]/.test(address));
    ipv6 = { isRouted, untilMs: nowMs + LOOK_EVERY_MS };
  }
  return ipv6.isRouted;
}
