import ipaddr from 'ipaddr.js';

/**
 * What a limit per client should count as one: an IPv4 address, or a whole IPv6 /64, which one subscriber usually has. Text that is
 * no address stays as it is.
 */
export function clientOrigin(address: string): string {
  if (!ipaddr.isValid(address)) return address;
  const parsed = ipaddr.process(address);
  return parsed instanceof ipaddr.IPv6 ? parsed.parts.slice(0, 4).join(':') : parsed.toString();
}
