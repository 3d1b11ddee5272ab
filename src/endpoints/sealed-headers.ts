import type { SecretBox } from './secret-box.ts';

/** Header names with their sealed values in base64. */
export type SealedHeaders = Readonly<Record<string, string>>;

/** What answers show instead of a value. In a change it keeps the value. */
export const MASK = '********';

interface HeadersRow {
  readonly endpoint_id: string;
  /** Plain, as the version before wrote them: newer than the sealed ones when there are any. */
  readonly headers: Readonly<Record<string, string>>;
  readonly sealed_headers: SealedHeaders;
}

export function sealHeaders(
  box: SecretBox,
  endpointId: string,
  headers: Readonly<Record<string, string>>,
): SealedHeaders {
  return mapValues(headers, (value, name) =>
    box.seal(Buffer.from(value), placeOf(endpointId, name)).toString('base64'),
  );
}

/** @throws Error when one was sealed with an unknown key */
export function openHeaders(box: SecretBox, row: HeadersRow): Record<string, string> {
  if (hasPlainHeaders(row)) return row.headers;
  return mapValues(row.sealed_headers, (sealed, name) =>
    box.open(Buffer.from(sealed, 'base64'), placeOf(row.endpoint_id, name)).toString(),
  );
}

/** As `openHeaders`; a value that cannot be opened is masked, so that its endpoint can be looked at and mended. */
export function readableHeaders(box: SecretBox, row: HeadersRow): Record<string, string> {
  try {
    return openHeaders(box, row);
  } catch {
    return maskedHeaders(row);
  }
}

export function maskedHeaders(row: HeadersRow): Record<string, string> {
  return Object.fromEntries(headerNames(row).map((name) => [name, MASK]));
}

export function headerNames(row: HeadersRow): string[] {
  return Object.keys(hasPlainHeaders(row) ? row.headers : row.sealed_headers);
}

/** True for a row that was written by the version before. */
export function hasPlainHeaders({ headers }: Pick<HeadersRow, 'headers'>): boolean {
  return Object.keys(headers).length > 0;
}

/** The headers after a change that passed `maskProblems`: absent stays, null removes all, the mask keeps one. */
export function changedHeaders(
  box: SecretBox,
  row: HeadersRow,
  change: Readonly<Record<string, string>> | null | undefined,
): SealedHeaders {
  const current = hasPlainHeaders(row) ? sealHeaders(box, row.endpoint_id, row.headers) : row.sealed_headers;
  if (change === undefined) return current;
  const byName = new Map(Object.entries(current).map(([name, sealed]) => [name.toLowerCase(), sealed]));
  return mapValues(change ?? {}, (value, name) => {
    const kept = value === MASK ? byName.get(name.toLowerCase()) : undefined;
    return kept ?? box.seal(Buffer.from(value), placeOf(row.endpoint_id, name)).toString('base64');
  });
}

/** A value belongs to one header of one endpoint. */
export function placeOf(endpointId: string, name: string): string {
  return `${endpointId} header ${name.toLowerCase()}`;
}

function mapValues(
  record: Readonly<Record<string, string>>,
  change: (value: string, name: string) => string,
): Record<string, string> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]));
}
