/**
 * Opens sockets for undici to vetted addresses only. Names are resolved here, and the addresses that were judged are the ones
 * that are dialled: there is no second look-up between the judgement and the connection that could answer differently.
 */
import { type LookupAddress, lookup as systemLookup } from 'node:dns';
import { type LookupFunction, isIP } from 'node:net';
import { buildConnector } from 'undici';
import { type AllowRule, judgeAddress } from './address-guard.ts';

/** Resolves a name to all its addresses. `dns.lookup` with `all: true` (the default) reads /etc/hosts too. */
export type LookupAll = (
  hostname: string,
  options: { readonly all: true },
  callback: (error: Error | null, addresses: LookupAddress[]) => void,
) => void;

export interface GuardedConnectorOptions {
  readonly allow: readonly AllowRule[];
  /** Deadline of look-up, TCP and TLS handshake together. */
  readonly connectTimeoutMs: number;
  /** Offer HTTP/2 by ALPN on TLS connections. */
  readonly allowH2: boolean;
  /** For tests. */
  readonly lookup?: LookupAll;
}

/** The guard refused every address of the host. Nothing was sent. */
export class AddressRefusedError extends Error {
  readonly code = 'ADDRESS_REFUSED';
  readonly host: string;
  /** One for each refused address, each starting with it. May name internal addresses: not for tenants. */
  readonly reasons: readonly string[];

  constructor(host: string, reasons: readonly string[]) {
    super(`${host} is not allowed: ${reasons.join('; ')}`);
    this.name = 'AddressRefusedError';
    this.host = host;
    this.reasons = reasons;
  }
}

/** Pause before the next address is tried beside the one that does not answer (RFC 8305, section 5). */
const ATTEMPT_DELAY_MS = 250;
/** Matches no rule that names a port. */
const OTHER_PORTS = 0;

/**
 * A connector for undici's `connect` option. Every resolved address is judged; refused ones are left out, and when none is left
 * the request fails with AddressRefusedError. Literal addresses, for which Node makes no look-up, are judged as well, and so is
 * the peer of the open socket. Runs once a connection: requests that reuse one pay nothing. Several addresses are
 * tried in turn by Node's own family auto-selection.
 */
export function guardedConnector(options: GuardedConnectorOptions): buildConnector.connector {
  const { allow, connectTimeoutMs, allowH2, lookup = systemLookup } = options;
  // A look-up does not get to know the port, so each port that a rule names has a connector; the others share one.
  const connectors = new Map(
    [OTHER_PORTS, ...allow.flatMap((rule) => rule.port ?? [])].map((port) => [
      port,
      buildConnector({
        timeout: connectTimeoutMs,
        allowH2,
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: ATTEMPT_DELAY_MS,
        lookup: vettedLookup(lookup, port, allow),
      }),
    ]),
  );
  return (target, callback) => {
    const port = portOf(target);
    const connect = connectors.get(port) ?? connectors.get(OTHER_PORTS)!;
    const literal = isIP(target.hostname) === 0 ? undefined : judgeAddress(target.hostname, port, allow);
    if (literal && !literal.ok) {
      const refusal = new AddressRefusedError(target.hostname, [literal.reason]);
      queueMicrotask(() => callback(refusal, null));
      return;
    }
    // undici cancels an attempt through the socket that a connector returns, although its type says void.
    return connect(target, (...result) => {
      const [error, socket] = result;
      if (error) return callback(error, null);
      const refusal = refusePeer(target.hostname, socket.remoteAddress, port, allow);
      if (!refusal) return callback(null, socket);
      socket.destroy();
      callback(refusal, null);
    });
  };
}

function portOf({ port, protocol }: buildConnector.Options): number {
  if (port !== '') return Number(port);
  return protocol === 'https:' ? 443 : 80;
}

/**
 * The last line of defence: whatever was asked for, is the peer of the open socket one that may be talked to? A socket
 * that has lost its peer meanwhile was reset, which is no refusal and may be tried again.
 */
export function refusePeer(
  host: string,
  remoteAddress: string | undefined,
  port: number,
  allow: readonly AllowRule[],
): Error | undefined {
  if (remoteAddress === undefined)
    return Object.assign(new Error(`${host} closed the connection at once`), { code: 'ECONNRESET' });
  const verdict = judgeAddress(remoteAddress, port, allow);
  return verdict.ok ? undefined : new AddressRefusedError(host, [verdict.reason]);
}

function vettedLookup(lookup: LookupAll, port: number, allow: readonly AllowRule[]): LookupFunction {
  return (hostname, { all }, callback) => {
    lookup(hostname, { all: true }, (error, found) => {
      if (error) return callback(error, []);
      const { vetted, reasons } = vet(found, port, allow);
      const [first] = vetted;
      if (!first) return callback(new AddressRefusedError(hostname, reasons), []);
      if (all) callback(null, vetted);
      else callback(null, first.address, first.family);
    });
  };
}

/** Copies what passes, so that nobody can change an address after it was judged. */
function vet(
  found: readonly LookupAddress[],
  port: number,
  allow: readonly AllowRule[],
): { vetted: LookupAddress[]; reasons: string[] } {
  const vetted: LookupAddress[] = [];
  const reasons: string[] = found.length === 0 ? ['the name has no address'] : [];
  for (const { address, family } of found) {
    const verdict = judgeAddress(address, port, allow);
    if (verdict.ok) vetted.push({ address, family });
    else reasons.push(verdict.reason);
  }
  return { vetted, reasons };
}
