/**
 * Opens sockets for undici to vetted addresses only. Names are resolved here, and the addresses that were judged are the ones
 * that are dialled: there is no second look-up between the judgement and the connection that could answer differently.
 */
import type { LookupAddress } from 'node:dns';
import { type LookupFunction, type Socket, isIP } from 'node:net';
import { buildConnector, errors } from 'undici';
import type { NameFailure } from '../dns/name-query.ts';
import type { NameResult, PendingName, RefusalReason, ResolveName } from '../dns/resolver.ts';
import { type AllowRule, judgeAddress } from './address-guard.ts';

export interface GuardedConnectorOptions {
  readonly allow: readonly AllowRule[];
  /** Deadline of TCP and TLS handshake together. The look-up before them has its own. */
  readonly connectTimeoutMs: number;
  /** Offer HTTP/2 by ALPN on TLS connections. */
  readonly allowH2: boolean;
  readonly resolve: ResolveName;
}

/** Who wants a connection, and what it waits for. */
export interface Dialler {
  /** Whose limits the look-up counts for. */
  readonly share: string;
  /** Present while the name is looked up. */
  pendingName: PendingName | undefined;
  /** The look-up of the last connection waited for a limit of ours. */
  hasQueued: boolean;
}

/** undici's connector, with the socket that it returns (its type says void), and who asks. */
export type GuardedConnect = (
  target: buildConnector.Options,
  callback: buildConnector.Callback,
  dialler: Dialler,
) => Socket | undefined;

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

const NAME_FAILURES: Readonly<Record<NameFailure, { readonly code: string; readonly text: string }>> = {
  not_found: { code: 'ENOTFOUND', text: 'does not exist or has no address' },
  server_failure: { code: 'ESERVFAIL', text: 'could not be looked up: its name server failed' },
  timeout: { code: 'ETIMEOUT', text: 'could not be looked up: its name server did not answer in time' },
};

/** The name servers gave no address for the host. */
export class NameLookupError extends Error {
  readonly code: string;

  constructor(host: string, reason: NameFailure) {
    const { code, text } = NAME_FAILURES[reason];
    super(`${host} ${text}`);
    this.name = 'NameLookupError';
    this.code = code;
  }
}

/** Our own limits kept the name from being looked up. Says nothing of the receiver. */
export class NameLookupRefusedError extends Error {
  readonly code = 'LOOKUP_REFUSED';
  readonly why: RefusalReason;

  constructor(host: string, why: RefusalReason) {
    super(`${host} was not looked up: too many look-ups wait`);
    this.name = 'NameLookupRefusedError';
    this.why = why;
  }
}

/** Pause before the next address is tried beside the one that does not answer (RFC 8305, section 5). */
const ATTEMPT_DELAY_MS = 250;

/**
 * A connector for undici. Every resolved address is judged, cached ones too; refused ones are left out, and when none is left the
 * request fails with AddressRefusedError. Literal addresses, for which Node makes no look-up, are judged as well, and so is the
 * peer of the open socket. Runs once a connection: requests that reuse one pay nothing. Several addresses are tried in turn by
 * Node's own family auto-selection.
 */
export function guardedConnector(options: GuardedConnectorOptions): GuardedConnect {
  const { allow, connectTimeoutMs, allowH2 } = options;
  // `net.connect` calls `lookup` before it returns, so this is the attempt that a look-up belongs to.
  let starting: Attempt | undefined;
  const lookup: LookupFunction = (hostname, { all }, callback) =>
    starting!.lookUp(hostname, options, all === true, callback);
  const connect = buildConnector({
    timeout: 0,
    allowH2,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ATTEMPT_DELAY_MS,
    lookup,
  }) as (...args: Parameters<buildConnector.connector>) => Socket;
  return (target, callback, dialler) => {
    const port = portOf(target);
    const literal = isIP(target.hostname) === 0 ? undefined : judgeAddress(target.hostname, port, allow);
    if (literal && !literal.ok) {
      const refusal = new AddressRefusedError(target.hostname, [literal.reason]);
      queueMicrotask(() => callback(refusal, null));
      return undefined;
    }
    const attempt = new Attempt(dialler, port, connectTimeoutMs);
    starting = attempt;
    try {
      const socket = connect(target, (...result) => {
        const [error, open] = result;
        attempt.ended();
        if (error) return callback(error, null);
        const refusal = refusePeer(target.hostname, open.remoteAddress, port, allow);
        if (!refusal) return callback(null, open);
        open.destroy();
        callback(refusal, null);
      });
      attempt.started(socket);
      return socket;
    } finally {
      starting = undefined;
    }
  };
}

/** One connection that is being made: first its name is looked up, then it has its time to connect. */
class Attempt {
  readonly #dialler: Dialler;
  readonly #port: number;
  readonly #timeoutMs: number;
  #pending: PendingName | undefined;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(dialler: Dialler, port: number, timeoutMs: number) {
    this.#dialler = dialler;
    this.#port = port;
    this.#timeoutMs = timeoutMs;
  }

  started(socket: Socket): void {
    this.#socket = socket;
    if (this.#pending === undefined) this.#startTimer();
    // undici cancels an attempt by destroying its socket.
    socket.once('close', () => this.ended());
  }

  ended(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#pending?.leave();
    this.#waitFor(undefined);
  }

  lookUp(
    hostname: string,
    { allow, resolve }: GuardedConnectorOptions,
    all: boolean,
    callback: Parameters<LookupFunction>[2],
  ): void {
    const pending = resolve(hostname, this.#dialler.share, (result) => {
      this.#waitFor(undefined);
      const vetted = vet(hostname, result, this.#port, allow);
      if (vetted instanceof Error) return callback(vetted, []);
      this.#startTimer();
      if (all) callback(null, vetted);
      else callback(null, vetted[0]!.address, vetted[0]!.family);
    });
    this.#waitFor(pending);
    this.#dialler.hasQueued = pending?.isQueued === true;
  }

  #waitFor(pending: PendingName | undefined): void {
    this.#pending = pending;
    this.#dialler.pendingName = pending;
  }

  /** Does nothing before the socket is there: `started` calls it again. */
  #startTimer(): void {
    if (this.#socket === undefined || this.#isOver) return;
    // What the socket has heard meanwhile goes first: this process may be late itself.
    this.#timer = setTimeout(() => setImmediate(() => this.#expire()), this.#timeoutMs);
  }

  #expire(): void {
    if (this.#isOver) return;
    this.#socket?.destroy(
      new errors.ConnectTimeoutError(`No connection within ${this.#timeoutMs} ms of the look-up`),
    );
  }
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

/** The addresses that may be dialled, or why there is none. Copies, so that nobody can change an address after it was judged. */
function vet(
  hostname: string,
  result: NameResult,
  port: number,
  allow: readonly AllowRule[],
): LookupAddress[] | Error {
  if (result.kind === 'failed') return new NameLookupError(hostname, result.reason);
  if (result.kind === 'refused') return new NameLookupRefusedError(hostname, result.why);
  const vetted: LookupAddress[] = [];
  const reasons: string[] = result.addresses.length === 0 ? ['the name has no address'] : [];
  for (const { address, family } of result.addresses) {
    const verdict = judgeAddress(address, port, allow);
    if (verdict.ok) vetted.push({ address, family });
    else reasons.push(verdict.reason);
  }
  return vetted.length > 0 ? vetted : new AddressRefusedError(hostname, reasons);
}
