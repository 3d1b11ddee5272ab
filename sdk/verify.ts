/**
 * The receiver's side of a webhook: is this request from who holds the secret, and is it fresh? Implements Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks, "Signature scheme" and "Verifying webhook authenticity", version
 * `v1`: HMAC-SHA256). Needs nothing but `node:crypto` and `node:buffer`, which Deno and Bun have too.
 *
 * Verify the bytes as they came, before anything parses them: JSON that was parsed and written again has other bytes.
 */
import { Buffer } from 'node:buffer';
import { createHmac, timingSafeEqual } from 'node:crypto';

/** Headers as fetch has them, as node:http has them, or as any object; names in whatever case. */
export type WebhookHeaders =
  { get(name: string): string | null } | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Why a request is not to be trusted. */
export type WebhookVerificationCode =
  /** The secret given to verifyWebhook is not `whsec_` and base64: a fault of the receiver, not of the request. */
  | 'SECRET_INVALID'
  | 'HEADER_MISSING'
  /** A header came twice, is empty or overlong, or the ID has a full stop. */
  | 'HEADER_MALFORMED'
  | 'TIMESTAMP_MALFORMED'
  /** Older than the tolerance: a replayed request, or a clock that is wrong. */
  | 'TIMESTAMP_TOO_OLD'
  | 'TIMESTAMP_TOO_NEW'
  /** No `v1` signature in the header fits: another secret, or other bytes. */
  | 'SIGNATURE_MISMATCH';

/** The request is not to be trusted; answer 400 or 401 and do nothing else. The message holds no secret. */
export class WebhookVerificationError extends Error {
  readonly code: WebhookVerificationCode;

  constructor(code: WebhookVerificationCode, message: string) {
    super(message);
    this.name = 'WebhookVerificationError';
    this.code = code;
  }
}

/** A request that is genuine. Only `id`, `timestamp` and `payload` are covered by the signature. */
export interface VerifiedWebhook {
  /** `webhook-id`: the same in each attempt at the same delivery, so that repetitions can be told by it. */
  readonly id: string;
  /** When this attempt was signed, to the second. */
  readonly timestamp: Date;
  /** The bytes that were signed. A view of the caller's, when those were given as bytes. */
  readonly payload: Uint8Array;
  /** `X-RelayOps-Delivery-Id`. Not signed, as all that follow: for logs and support, not for decisions. */
  readonly deliveryId: string | undefined;
  /** `X-RelayOps-Event-Id`. */
  readonly eventId: string | undefined;
  /** `X-RelayOps-Event-Type`. */
  readonly eventType: string | undefined;
  /** `X-RelayOps-Attempt`: 1 for the first attempt, rising. */
  readonly attempt: number | undefined;
}

export interface VerifyOptions {
  /** Largest distance between `webhook-timestamp` and now, either way, in seconds. Standard Webhooks suggests 300. */
  readonly toleranceSeconds?: number;
  /** For tests. */
  readonly now?: Date;
}

const SECRET_PREFIX = 'whsec_';
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const UNIX_SECONDS = /^[0-9]{1,11}$/;
const ATTEMPT_NUMBER = /^[1-9][0-9]{0,8}$/;
const DEFAULT_TOLERANCE_S = 300;
const MAX_HEADER_LENGTH = 16_384;

/**
 * Verifies one webhook request. While a secret is being rotated, give the old and the new one; the sender signs with both too, so
 * the order in which the two sides change does not matter. Signatures are compared in constant time.
 * @param payload the request body exactly as received; text is taken as UTF-8
 * @param secret `whsec_<base64>` (the prefix may be left out), or several
 * @throws WebhookVerificationError with a `code`, for anything that is not a genuine and fresh request
 * @throws TypeError when the payload is neither text nor bytes, e.g. parsed JSON
 * @throws RangeError when `toleranceSeconds` is negative or not a number
 */
export function verifyWebhook(
  payload: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[],
  { toleranceSeconds = DEFAULT_TOLERANCE_S, now = new Date() }: VerifyOptions = {},
): VerifiedWebhook {
  if (!(toleranceSeconds >= 0)) throw new RangeError('toleranceSeconds must be 0 or more');
  if (typeof payload !== 'string' && !((payload as unknown) instanceof Uint8Array))
    throw new TypeError('the payload must be the raw request body, as text or bytes');
  const keys = (typeof secret === 'string' ? [secret] : secret).map(keyOf);
  if (keys.length === 0) throw new WebhookVerificationError('SECRET_INVALID', 'no secret was given');
  const header = headerReader(headers);
  const id = required(header, 'webhook-id');
  // "a.1" and "2" sign the same text as "a" and "1" with a payload that starts with "2.": no full stop, no doubt.
  if (id.includes('.'))
    throw new WebhookVerificationError('HEADER_MALFORMED', 'webhook-id must not have a full stop');
  const time = required(header, 'webhook-timestamp');
  const signatures = required(header, 'webhook-signature');
  const timestamp = checkedTime(time, toleranceSeconds, now);
  const bytes = typeof payload === 'string' ? Buffer.from(payload, 'utf8') : payload;
  if (!fits(signatures, `${id}.${time}.`, bytes, keys))
    throw new WebhookVerificationError('SIGNATURE_MISMATCH', 'no signature fits the payload and the secret');
  const attempt = header('x-relayops-attempt') ?? '';
  return {
    id,
    timestamp,
    payload: bytes,
    deliveryId: header('x-relayops-delivery-id'),
    eventId: header('x-relayops-event-id'),
    eventType: header('x-relayops-event-type'),
    attempt: ATTEMPT_NUMBER.test(attempt) ? Number(attempt) : undefined,
  };
}

function keyOf(secret: string): Buffer {
  const text = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  if (text === '' || !BASE64.test(text))
    throw new WebhookVerificationError('SECRET_INVALID', 'a secret is "whsec_" followed by base64');
  return Buffer.from(text, 'base64');
}

type HeaderReader = (name: string) => string | undefined;

function headerReader(headers: WebhookHeaders): HeaderReader {
  if (isFetchHeaders(headers)) return (name) => headers.get(name) ?? undefined;
  return (name) => {
    const value = valueOf(headers, name);
    if (value === undefined || typeof value === 'string') return value;
    if (!Array.isArray(value) || value.length !== 1 || typeof value[0] !== 'string')
      throw new WebhookVerificationError('HEADER_MALFORMED', `${name} must be there exactly once`);
    return value[0];
  };
}

function isFetchHeaders(headers: WebhookHeaders): headers is { get(name: string): string | null } {
  return typeof headers.get === 'function';
}

/** The lower-case name first, as node:http has it: looking through all names is for the rest. */
function valueOf(headers: Readonly<Record<string, unknown>>, name: string): unknown {
  if (Object.hasOwn(headers, name)) return headers[name];
  const key = Object.keys(headers).find((candidate) => candidate.toLowerCase() === name);
  return key === undefined ? undefined : headers[key];
}

function required(header: HeaderReader, name: string): string {
  const value = header(name);
  if (value === undefined) throw new WebhookVerificationError('HEADER_MISSING', `${name} is missing`);
  if (value === '' || value.length > MAX_HEADER_LENGTH)
    throw new WebhookVerificationError('HEADER_MALFORMED', `${name} is empty or overlong`);
  return value;
}

function checkedTime(text: string, toleranceSeconds: number, now: Date): Date {
  if (!UNIX_SECONDS.test(text))
    throw new WebhookVerificationError(
      'TIMESTAMP_MALFORMED',
      'webhook-timestamp is not a time in Unix seconds',
    );
  const seconds = Number(text);
  const ageSeconds = Math.floor(now.getTime() / 1000) - seconds;
  // Written so that an invalid date, whose age is NaN, passes neither.
  if (!(ageSeconds <= toleranceSeconds))
    throw new WebhookVerificationError('TIMESTAMP_TOO_OLD', `signed ${ageSeconds} s ago`);
  if (!(-ageSeconds <= toleranceSeconds))
    throw new WebhookVerificationError('TIMESTAMP_TOO_NEW', `signed ${-ageSeconds} s in the future`);
  return new Date(seconds * 1000);
}

/** One HMAC for each key; every `v1` signature in the header is compared with it. */
function fits(header: string, prefix: string, payload: Uint8Array, keys: readonly Buffer[]): boolean {
  const given = header
    .split(' ')
    .filter((signature) => signature.startsWith('v1,'))
    .map((signature) => Buffer.from(signature.slice('v1,'.length), 'utf8'));
  let fit = false;
  for (const key of keys) {
    const expected = Buffer.from(
      createHmac('sha256', key).update(prefix, 'utf8').update(payload).digest('base64'),
      'utf8',
    );
    for (const signature of given)
      fit = (signature.length === expected.length && timingSafeEqual(signature, expected)) || fit;
  }
  return fit;
}
