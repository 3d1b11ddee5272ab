import { compileFilter, ExpressionError } from '../platform/expressions/index.ts';
import type { FieldProblem } from '../shared/errors.ts';
import { isPattern } from './patterns.ts';

/** Subscriptions that one endpoint may have; each is looked at for every event of a type that it matches. */
export const MAX_SUBSCRIPTIONS = 100;

/** Control characters other than tab and line ends (PostgreSQL's text cannot hold a NUL), and halves of surrogate pairs. */
const UNSTORABLE = /(?![\t\n\r])\p{Cc}|\p{Cs}/u;

const PATTERN_FIX = 'Use an event type such as "order.paid", a prefix such as "order.*", or "*" for all.';

/**
 * What is wrong with a subscription, or with a change of one; what is absent is not looked at.
 * @param at goes in front of the fields' names, e.g. `subscriptions/0/`
 */
export function subscriptionProblems(
  { pattern, filter }: { readonly pattern?: string; readonly filter?: string | null },
  at = '',
): FieldProblem[] {
  const problems: FieldProblem[] = [];
  if (pattern !== undefined && !isPattern(pattern))
    problems.push({ field: `${at}pattern`, reason: 'is not a pattern of event types', fix: PATTERN_FIX });
  if (filter != null) problems.push(...filterProblems(filter, `${at}filter`));
  return problems;
}

function filterProblems(filter: string, field: string): FieldProblem[] {
  if (UNSTORABLE.test(filter))
    return [
      {
        field,
        reason: 'has a control character or half a character',
        fix: 'Write it as a CEL escape, such as \\u0000.',
      },
    ];
  try {
    compileFilter(filter);
    return [];
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    const fix =
      'Write a CEL expression that yields true or false, such as payload.amount > 100, or null for no filter.';
    return [{ field, reason: `is not a valid filter: ${error.message}`, fix }];
  }
}
