import type { FieldProblem } from '../shared/errors.ts';
import type { Principal } from '../tenants/index.ts';
import type { EndpointChange } from './endpoint.schemas.ts';
import type { EndpointRow } from './endpoint.sql.ts';
import { fieldOf } from './header-rules.ts';
import { MASK, headerNames } from './sealed-headers.ts';

type Headers = Readonly<Record<string, string>> | null | undefined;

/** The mask keeps a value that is there; where none is it would be stored itself. */
export function maskProblems(headers: Headers, known: readonly string[]): FieldProblem[] {
  const names = new Set(known.map((name) => name.toLowerCase()));
  return Object.entries(headers ?? {})
    .filter(([name, value]) => value === MASK && !names.has(name.toLowerCase()))
    .map(([name]) => ({
      field: fieldOf(name),
      reason: `has the value ${MASK}, which answers show instead of a value, and there is no value to keep`,
      fix: 'Send the value itself.',
    }));
}

/** Who may not read the header values could have them sent to a server of their own. */
export function exposureProblems(
  { scopes }: Pick<Principal, 'scopes'>,
  current: EndpointRow,
  change: EndpointChange,
): FieldProblem[] {
  if (scopes.has('endpoints:secrets') || change.url === undefined) return [];
  if (new URL(change.url).origin === new URL(current.url).origin) return [];
  const keeps =
    change.headers === undefined
      ? headerNames(current).length > 0
      : Object.values(change.headers ?? {}).includes(MASK);
  if (!keeps) return [];
  return [
    {
      field: 'url',
      reason: 'is at another origin, which would get header values that you may not read',
      fix: 'Send `headers` with all their values too, or ask somebody with the scope endpoints:secrets.',
    },
  ];
}
