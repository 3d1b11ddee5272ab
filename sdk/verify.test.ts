import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { Webhook as StandardWebhook } from 'standardwebhooks';
import { Webhook as SvixWebhook } from 'svix';
import { describe, expect, it } from 'vitest';
import {
  type VerifyOptions,
  type WebhookHeaders,
  type WebhookVerificationCode,
  WebhookVerificationError,
  verifyWebhook,
} from './verify.ts';

const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
const OTHER = `whsec_${randomBytes(32).toString('base64')}`;
const NOW = new Date();
const PAYLOAD = '{"amount": 9007199254740993, "note":"ü\\u2028 "}';

const unix = (date: Date): string => String(Math.floor(date.getTime() / 1000));
const sign = (payload: string, { secret = SECRET, id = 'msg_1', at = NOW } = {}): string =>
  new StandardWebhook(secret).sign(id, at, payload);
const headersOf = (signature: string, { id = 'msg_1', at = NOW } = {}): Record<string, string> => ({
  'webhook-id': id,
  'webhook-timestamp': unix(at),
  'webhook-signature': signature,
});

function codeOf(
  payload: string | Uint8Array,
  headers: WebhookHeaders,
  secret: string | readonly string[] = SECRET,
  options: VerifyOptions = { now: NOW },
): WebhookVerificationCode | 'verified' {
  try {
    verifyWebhook(payload, headers, secret, options);
    return 'verified';
  } catch (error) {
    expect(error).toBeInstanceOf(WebhookVerificationError);
    return (error as WebhookVerificationError).code;
  }
}

describe('verifyWebhook', () => {
  it('takes the published example of the Standard Webhooks specification', () => {
    const headers = {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    };
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
    const options = { now: new Date(1_614_265_330_000) };
    expect(codeOf('{"test": 2432232314}', headers, secret, options)).toBe('verified');
  });

  it('gives back what was signed and what came beside it', () => {
    const headers = {
      ...headersOf(sign(PAYLOAD)),
      'X-RelayOps-Delivery-Id': 'd1',
      'X-RelayOps-Event-Id': 'e1',
      'X-RelayOps-Event-Type': 'order.paid',
      'X-RelayOps-Attempt': '3',
    };
    const bytes = Buffer.from(PAYLOAD);
    const verified = verifyWebhook(bytes, headers, SECRET, { now: NOW });
    expect(verified).toEqual({
      id: 'msg_1',
      timestamp: new Date(Number(unix(NOW)) * 1000),
      payload: bytes,
      deliveryId: 'd1',
      eventId: 'e1',
      eventType: 'order.paid',
      attempt: 3,
    });
    expect(verified.payload).toBe(bytes);
  });

  it.each(['0', '-1', '1.5', 'x', '', '99999999999'])('knows no attempt number %j', (attempt) => {
    const headers = { ...headersOf(sign(PAYLOAD)), 'x-relayops-attempt': attempt };
    expect(verifyWebhook(PAYLOAD, headers, SECRET).attempt).toBeUndefined();
  });

  it('reads headers as fetch, node:http and plain objects have them, in whatever case', () => {
    const plain = headersOf(sign(PAYLOAD));
    const upper = Object.fromEntries(
      Object.entries(plain).map(([name, value]) => [name.toUpperCase(), value]),
    );
    const lists = Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, [value]]));
    for (const headers of [plain, upper, lists, new Headers(plain), new Map(Object.entries(plain))])
      expect(codeOf(PAYLOAD, headers as WebhookHeaders)).toBe('verified');
  });

  it('accepts what standardwebhooks and svix sign, text or bytes, whatever the key', () => {
    const key = fc.uint8Array({ minLength: 1, maxLength: 64 });
    const id = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/);
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), id, key, (payload, msgId, keyBytes) => {
        const secret = `whsec_${Buffer.from(keyBytes).toString('base64')}`;
        for (const signer of [new StandardWebhook(secret), new SvixWebhook(secret)]) {
          const headers = headersOf(signer.sign(msgId, NOW, payload), { id: msgId });
          expect(codeOf(payload, headers, secret)).toBe('verified');
          expect(codeOf(Buffer.from(payload), headers, secret.slice('whsec_'.length))).toBe('verified');
        }
      }),
    );
  });

  it('agrees with standardwebhooks and svix about changed bytes, signatures, IDs and times', () => {
    const change = fc.record({
      payload: fc.constantFrom(PAYLOAD, `${PAYLOAD} `, PAYLOAD.slice(1), ''),
      id: fc.constantFrom('msg_1', 'msg_2'),
      offsetS: fc.constantFrom(0, 1, -299, 299, -310, 310, 86_400),
      signature: fc.constantFrom('', 'v1a,x ', 'v1, ', 'v1,AAAA '),
      last: fc.boolean(),
    });
    fc.assert(
      fc.property(change, ({ payload, id, offsetS, signature, last }) => {
        const at = new Date(Date.now() + offsetS * 1000);
        const genuine = sign(PAYLOAD, { at });
        const headers = headersOf(`${signature}${last ? genuine : genuine.replace(/.{5}=$/, 'AAAAA=')}`, {
          id,
          at,
        });
        const ours = codeOf(payload, headers, SECRET, {}) === 'verified';
        for (const theirs of [new StandardWebhook(SECRET), new SvixWebhook(SECRET)])
          expect(accepts(() => theirs.verify(payload, headers))).toBe(ours);
      }),
      { numRuns: 400 },
    );
  });

  it('refuses a changed byte anywhere', () => {
    const headers = headersOf(sign(PAYLOAD));
    const bytes = Buffer.from(PAYLOAD);
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(codeOf(changed, headers)).toBe('SIGNATURE_MISMATCH');
    }
    expect(codeOf(PAYLOAD, headers, OTHER)).toBe('SIGNATURE_MISMATCH');
    expect(codeOf(PAYLOAD, { ...headers, 'webhook-id': 'msg_2' })).toBe('SIGNATURE_MISMATCH');
  });

  it.each([
    [0, 'verified'],
    [300, 'verified'],
    [301, 'TIMESTAMP_TOO_OLD'],
    [-300, 'verified'],
    [-301, 'TIMESTAMP_TOO_NEW'],
  ])('judges a request signed %i s ago as %s', (ageS, code) => {
    const at = new Date(NOW.getTime() - ageS * 1000);
    expect(codeOf(PAYLOAD, headersOf(sign(PAYLOAD, { at }), { at }))).toBe(code);
  });

  it('takes another tolerance, and neither a meaningless one nor a meaningless time', () => {
    const at = new Date(NOW.getTime() - 10_000);
    const headers = headersOf(sign(PAYLOAD, { at }), { at });
    expect(codeOf(PAYLOAD, headers, SECRET, { now: NOW, toleranceSeconds: 9 })).toBe('TIMESTAMP_TOO_OLD');
    expect(codeOf(PAYLOAD, headers, SECRET, { now: NOW, toleranceSeconds: 10 })).toBe('verified');
    expect(codeOf(PAYLOAD, headers, SECRET, { now: new Date(NaN) })).toBe('TIMESTAMP_TOO_OLD');
    for (const toleranceSeconds of [NaN, -1])
      expect(() => verifyWebhook(PAYLOAD, headers, SECRET, { toleranceSeconds })).toThrow(RangeError);
  });

  it('passes a rotation: two signatures, two secrets, in whatever order', () => {
    const before = sign(PAYLOAD);
    const after = sign(PAYLOAD, { secret: OTHER });
    for (const signature of [`${before} ${after}`, `${after} ${before}`]) {
      expect(codeOf(PAYLOAD, headersOf(signature), SECRET)).toBe('verified');
      expect(codeOf(PAYLOAD, headersOf(signature), OTHER)).toBe('verified');
    }
    for (const secrets of [
      [SECRET, OTHER],
      [OTHER, SECRET],
    ]) {
      expect(codeOf(PAYLOAD, headersOf(before), secrets)).toBe('verified');
      expect(codeOf(PAYLOAD, headersOf(after), secrets)).toBe('verified');
    }
    expect(codeOf(PAYLOAD, headersOf(before), [OTHER])).toBe('SIGNATURE_MISMATCH');
  });

  it.each([
    ['webhook-id', undefined, 'HEADER_MISSING'],
    ['webhook-timestamp', undefined, 'HEADER_MISSING'],
    ['webhook-signature', undefined, 'HEADER_MISSING'],
    ['webhook-id', '', 'HEADER_MALFORMED'],
    ['webhook-id', 'msg.1', 'HEADER_MALFORMED'],
    ['webhook-id', ['a', 'b'], 'HEADER_MALFORMED'],
    ['webhook-id', [], 'HEADER_MALFORMED'],
    ['webhook-signature', 'v1,a '.repeat(5_000), 'HEADER_MALFORMED'],
    ['webhook-timestamp', 'x', 'TIMESTAMP_MALFORMED'],
    ['webhook-timestamp', '1e9', 'TIMESTAMP_MALFORMED'],
    ['webhook-timestamp', '-1', 'TIMESTAMP_MALFORMED'],
    ['webhook-timestamp', `${unix(NOW)}.5`, 'TIMESTAMP_MALFORMED'],
    ['webhook-timestamp', '9'.repeat(30), 'TIMESTAMP_MALFORMED'],
    ['webhook-timestamp', '0', 'TIMESTAMP_TOO_OLD'],
    ['webhook-signature', 'v1', 'SIGNATURE_MISMATCH'],
    ['webhook-signature', 'v1,', 'SIGNATURE_MISMATCH'],
    ['webhook-signature', sign(PAYLOAD).replace('v1', 'v2'), 'SIGNATURE_MISMATCH'],
    ['webhook-signature', sign(PAYLOAD).replace('v1,', 'v1a,'), 'SIGNATURE_MISMATCH'],
    ['webhook-signature', sign(PAYLOAD).slice(3), 'SIGNATURE_MISMATCH'],
    ['webhook-signature', `${sign(PAYLOAD)}=`, 'SIGNATURE_MISMATCH'],
  ])('refuses %s: %j as %s', (name, value, code) => {
    const headers = { ...headersOf(sign(PAYLOAD)), [name]: value };
    expect(codeOf(PAYLOAD, headers as WebhookHeaders)).toBe(code);
  });

  it.each(['', 'whsec_', 'whsec_!!!!', 'whsec_abc', 'whsec_ab=c', 'whsec_ YWJj', 'hunter22hunter2'])(
    'names a secret that is none: %j',
    (secret) => {
      expect(codeOf(PAYLOAD, headersOf(sign(PAYLOAD)), secret)).toBe('SECRET_INVALID');
      expect(codeOf(PAYLOAD, headersOf(sign(PAYLOAD)), [SECRET, secret])).toBe('SECRET_INVALID');
    },
  );

  it('needs a secret at all, and a body that nobody has parsed', () => {
    expect(codeOf(PAYLOAD, headersOf(sign(PAYLOAD)), [])).toBe('SECRET_INVALID');
    const parsed = JSON.parse('{"a":1}') as string;
    expect(() => verifyWebhook(parsed, headersOf(sign(PAYLOAD)), SECRET)).toThrow(TypeError);
  });

  it('fails with a code, and never verifies, whatever comes in', () => {
    const text = fc.string({ unit: 'binary', maxLength: 80 });
    const value = fc.option(fc.oneof(text, fc.array(text, { maxLength: 3 }), fc.constant(unix(NOW))), {
      nil: undefined,
    });
    const names = ['webhook-id', 'webhook-timestamp', 'webhook-signature', '__proto__', 'get', 'WEBHOOK-ID'];
    const headers = fc.dictionary(fc.oneof(fc.constantFrom(...names), text), value);
    fc.assert(
      fc.property(text, headers, fc.oneof(text, fc.constant(SECRET)), (payload, given, secret) => {
        expect(codeOf(payload, given as WebhookHeaders, secret)).not.toBe('verified');
      }),
      { numRuns: 1_000 },
    );
  });
});

function accepts(verify: () => unknown): boolean {
  try {
    verify();
    return true;
  } catch (error) {
    // An empty or cut payload can be genuine and still no JSON, which is another question.
    return error instanceof SyntaxError;
  }
}
