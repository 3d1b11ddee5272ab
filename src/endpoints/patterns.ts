/**
 * Event types are dot-separated names (`order.paid`). A subscription's pattern is an exact type, a prefix ending in `.*` that
 * matches everything below it (`order.*` matches `order.paid` and `order.refund.done`, not `order`), or `*` for all.
 */
const EVENT_TYPE = /^[A-Za-z0-9_]+(?:[.\-/:@][A-Za-z0-9_]+)*$/;
export const MAX_EVENT_TYPE_LENGTH = 256;

export function isEventType(text: string): boolean {
  return text.length <= MAX_EVENT_TYPE_LENGTH && EVENT_TYPE.test(text);
}

export function isPattern(text: string): boolean {
  if (text === '*') return true;
  return isEventType(text.endsWith('.*') ? text.slice(0, -2) : text);
}

export function matchesPattern(pattern: string, type: string): boolean {
  if (pattern === '*') return true;
  if (pattern.endsWith('.*')) return type.startsWith(pattern.slice(0, -1));
  return pattern === type;
}
