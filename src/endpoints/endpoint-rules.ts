import { type AllowRule, judgeUrl } from '../platform/http/address-guard.ts';
import type { ErrorOccurrence, FieldProblem, RelayError } from '../shared/errors.ts';
import {
  endpointSecretInvalid,
  endpointSettingsInvalid,
  endpointUrlRefused,
  subscriptionInvalid,
} from './endpoints.errors.ts';
import { headerProblems } from './header-rules.ts';
import { parseSecret } from './secret-box.ts';
import { subscriptionProblems } from './subscription-rules.ts';

/** Endpoints that one tenant may have. */
export const MAX_ENDPOINTS = 10_000;

/** What this installation allows. */
export interface EndpointRules {
  readonly allow: readonly AllowRule[];
  readonly maxTimeoutMs: number;
}

/** The parts of a request body that have rules beyond their schema; what is absent is not looked at. */
export interface JudgedBody {
  readonly url?: string;
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly timeoutMs?: number | null;
  readonly secret?: string;
  readonly subscriptions?: readonly { readonly pattern: string; readonly filter?: string | null }[];
}

const SECRET_FIX = 'Send "whsec_" and the base64 of 24 to 64 bytes.';

/**
 * Looks at the whole body, so that a person mends everything in one go. The code is that of the first group with a problem.
 * @throws ENDPOINT_URL_REFUSED, ENDPOINT_SETTINGS_INVALID, ENDPOINT_SECRET_INVALID, SUBSCRIPTION_INVALID
 */
export function checkBody(body: JudgedBody, rules: EndpointRules): void {
  refuse([
    [endpointUrlRefused, body.url === undefined ? [] : urlProblems(body.url, rules.allow)],
    [
      endpointSettingsInvalid,
      [...headerProblems(body.headers ?? {}), ...timeoutProblems(body.timeoutMs, rules)],
    ],
    [endpointSecretInvalid, secretProblems(body.secret)],
    [
      subscriptionInvalid,
      (body.subscriptions ?? []).flatMap((one, i) => subscriptionProblems(one, `subscriptions/${i}/`)),
    ],
  ]);
}

type Finding = readonly [(occurrence: ErrorOccurrence) => RelayError, readonly FieldProblem[]];

/** Throws the first error that has problems, with the problems of all. */
export function refuse(findings: readonly Finding[]): void {
  const first = findings.find(([, problems]) => problems.length > 0);
  if (first) throw first[0]({ fields: findings.flatMap(([, problems]) => problems) });
}

/** The form of a URL that passed `checkBody` in which it is saved and dialled. */
export function normalisedUrl(url: string): string {
  return new URL(url).href;
}

function urlProblems(url: string, allow: readonly AllowRule[]): FieldProblem[] {
  const verdict = judgeUrl(url, allow);
  return verdict.ok ? [] : [{ field: 'url', reason: verdict.reason, fix: verdict.fix }];
}

function timeoutProblems(
  timeoutMs: number | null | undefined,
  { maxTimeoutMs }: EndpointRules,
): FieldProblem[] {
  if (timeoutMs == null || timeoutMs <= maxTimeoutMs) return [];
  const fix = 'Choose a shorter one, or have the operator of this installation raise delivery.maxTimeoutMs.';
  return [{ field: 'timeoutMs', reason: `is longer than the ${maxTimeoutMs} ms allowed here`, fix }];
}

/** Never repeats the secret. */
export function secretProblems(secret: string | undefined): FieldProblem[] {
  if (secret === undefined || parseSecret(secret) !== null) return [];
  return [{ field: 'secret', reason: 'is not a signing secret', fix: SECRET_FIX }];
}
