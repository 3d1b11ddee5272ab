import type { FieldProblem } from '../shared/errors.ts';

/** Headers that one endpoint may have. */
export const MAX_OWN_HEADERS = 20;
/** Their names and values together; receivers commonly stop at 8 KiB for all headers of a request. */
export const MAX_OWN_HEADER_BYTES = 4_096;

/** A token of RFC 9110, 5.6.2. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Names that nobody else may set, in lower case: ours, those that belong to one connection (RFC 9110, 7.6.1, and the proxy
 * fields), and `__proto__`, which is a token but no key that a JavaScript object can be trusted with.
 */
const RESERVED =
  /^(?:host|content-length|content-type|connection|transfer-encoding|keep-alive|upgrade|te|trailers?|expect|user-agent|traceparent|webhook-.*|x-relayops-.*|proxy-.*|http2-settings|__proto__)$/;

/**
 * Printable ASCII without space at the ends, which receivers strip. Control characters would allow a header to be smuggled in;
 * beyond ASCII receivers disagree about the encoding.
 */
const VALUE = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/;

/** True for a header name that an endpoint, or an event's attributes, may set. */
export function isOwnHeaderAllowed(name: string): boolean {
  return TOKEN.test(name) && !RESERVED.test(name.toLowerCase());
}

/** Everything that is wrong with an endpoint's own headers; empty when they can be sent. Values are never repeated in it. */
export function headerProblems(headers: Readonly<Record<string, string>>): FieldProblem[] {
  const entries = Object.entries(headers);
  const lower = entries.map(([name]) => name.toLowerCase());
  const twice = (name: string): boolean =>
    lower.indexOf(name.toLowerCase()) !== lower.lastIndexOf(name.toLowerCase());
  return [
    ...sizeProblems(entries),
    ...entries.flatMap(([name, value]) => [
      ...nameProblems(name, twice(name)),
      ...valueProblems(name, value),
    ]),
  ];
}

function sizeProblems(entries: readonly (readonly [string, string])[]): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (entries.length > MAX_OWN_HEADERS)
    problems.push({ field: 'headers', reason: `are more than ${MAX_OWN_HEADERS}`, fix: 'Send fewer.' });
  const bytes = entries.reduce(
    (sum, [name, value]) => sum + Buffer.byteLength(name) + Buffer.byteLength(value),
    0,
  );
  if (bytes > MAX_OWN_HEADER_BYTES) {
    const reason = `are ${bytes} bytes long together, more than ${MAX_OWN_HEADER_BYTES}`;
    problems.push({ field: 'headers', reason, fix: 'Send shorter ones.' });
  }
  return problems;
}

function nameProblems(name: string, twice: boolean): FieldProblem[] {
  const field = fieldOf(name);
  if (!TOKEN.test(name))
    return [{ field, reason: 'is not a header name', fix: 'Use letters, digits and hyphens.' }];
  if (!isOwnHeaderAllowed(name))
    return [
      { field, reason: 'is set by RelayOps or by the connection', fix: 'Remove it, or use another name.' },
    ];
  if (twice)
    return [{ field, reason: 'is there twice: case does not count in header names', fix: 'Keep one.' }];
  return [];
}

function valueProblems(name: string, value: string): FieldProblem[] {
  if (VALUE.test(value)) return [];
  const reason = 'has a value with characters other than printable ASCII, or with space at an end';
  return [{ field: fieldOf(name), reason, fix: 'Percent-encode or base64-encode it.' }];
}

/** A step of a JSON pointer (RFC 6901, 3). */
export function fieldOf(name: string): string {
  return `headers/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
