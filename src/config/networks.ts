import { isIP } from 'node:net';

/** Why a text is neither an IP address nor a network in CIDR notation; null when it is one. */
export function networkProblem(text: string): string | null {
  const [address = '', bits, ...rest] = text.split('/');
  const family = address.includes('%') ? 0 : isIP(address);
  if (family === 0) return 'does not start with an IP address';
  if (bits === undefined) return null;
  if (rest.length > 0 || !/^\d{1,3}$/.test(bits)) return 'is not a network in CIDR notation';
  const most = family === 4 ? 32 : 128;
  if (Number(bits) > most) return `has a prefix length above ${most}`;
  return Number(bits) === 0
    ? 'is every address: any client could then choose the address it is seen under'
    : null;
}
