import { AddressRefusedError, NameLookupError, NameLookupRefusedError } from './guarded-connector.ts';
import { ConnectAbandonedError } from './socket-client.ts';

/** Why there is no response. After `aborted` the receiver may have the request: we ended it ourselves. */
export type SendFailureCode =
  | 'timeout'
  | 'connect_timeout'
  | 'connection_refused'
  | 'connection_reset'
  | 'dns'
  | 'tls'
  | 'protocol'
  | 'address_refused'
  | 'request_invalid'
  | 'aborted';

export type SendOutcome =
  | {
      readonly kind: 'response';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      /** Decompressed, cut at the limit. */
      readonly body: Buffer;
      readonly truncated: boolean;
    }
  | { readonly kind: 'failure'; readonly code: SendFailureCode; readonly detail: string }
  /** A limit of ours, or our stop, came before the first byte was sent. Says nothing of the receiver. */
  | { readonly kind: 'deferred'; readonly detail: string };

export const abortedOutcome: SendOutcome = {
  kind: 'failure',
  code: 'aborted',
  detail:
    'The request was ended from our side while it was in flight; whether the receiver has it is not known.',
};

export function deferredOutcome(detail: string): SendOutcome {
  return { kind: 'deferred', detail };
}

export function lookupTimeoutOutcome(timeoutMs: number): SendOutcome {
  return {
    kind: 'failure',
    code: 'dns',
    detail: `Deadline of ${timeoutMs} ms passed: the look-up of the name did not end.`,
  };
}

export function timeoutOutcome(timeoutMs: number, status: number): SendOutcome {
  const reached = status === 0 ? 'no response headers' : `status ${status}, but the body did not end`;
  return { kind: 'failure', code: 'timeout', detail: `Deadline of ${timeoutMs} ms passed: ${reached}.` };
}

const CODES: Readonly<Record<string, SendFailureCode>> = {
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  UND_ERR_SOCKET: 'connection_reset',
  UND_ERR_CLOSED: 'aborted',
  UND_ERR_DESTROYED: 'aborted',
  UND_ERR_INVALID_ARG: 'request_invalid',
  ECONNREFUSED: 'connection_refused',
  ECONNRESET: 'connection_reset',
  EPIPE: 'connection_reset',
  ETIMEDOUT: 'connect_timeout',
  EHOSTUNREACH: 'connection_refused',
  ENETUNREACH: 'connection_refused',
  EADDRNOTAVAIL: 'connection_refused',
};

/** Every failure has a class; one that nobody knows yet counts as a broken connection, which is retried. */
export function failureOf(error: Error, isStarted: boolean): SendOutcome {
  if (error instanceof NameLookupRefusedError || error instanceof ConnectAbandonedError)
    return deferredOutcome(error.message);
  if (error instanceof NameLookupError)
    return { kind: 'failure', code: 'dns', detail: `${error.code}: ${error.message}.` };
  if (error instanceof AddressRefusedError) {
    return {
      kind: 'failure',
      code: 'address_refused',
      detail: 'The host resolves to an address that is not allowed.',
    };
  }
  const code = codeOf(error);
  const known =
    CODES[code] ??
    (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)|EPROTO/.test(code) ? 'tls' : undefined);
  if (known === 'aborted' && !isStarted) return deferredOutcome('We stopped before anything was sent.');
  return { kind: 'failure', code: known ?? 'protocol', detail: `${code}: ${error.message}`.slice(0, 300) };
}

function codeOf(error: Error): string {
  const own = (error as { code?: unknown }).code;
  if (typeof own === 'string') return own;
  // Several addresses were tried: the first failure stands for all.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return codeOf(error.errors[0]);
  return error.cause instanceof Error ? codeOf(error.cause) : error.name;
}
