import { expect } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import type { CrashSite } from './crash-site.ts';
import { Load } from './load.ts';

/** Facts about the events of some loads, as clients, database and receivers hold them. */
export interface Account {
  readonly events: number;
  readonly deliveriesByState: Readonly<Record<string, number>>;
  readonly attemptsByOutcome: Readonly<Record<string, number>>;
  /** Deliveries whose attempts are not numbered 1, 2, 3 … */
  readonly withGaps: number;
  /** Deliveries whose last attempt is not a success, or with a success that is not the last. */
  readonly notEndedBySuccess: number;
  /** Of all events. */
  readonly openWork: number;
  /** Of all events. */
  readonly outboxRows: number;
  readonly lateResults: number;
  /** Accepted events that no receiver answered 2xx, or that came with other bytes. */
  readonly lost: readonly string[];
  /** Keys whose events are stored though they were refused by a code that says that they are not. */
  readonly storedThoughRefused: readonly string[];
  /** Keys with more than one event. */
  readonly storedTwice: number;
  /** Answers with 2xx after the first one of the same delivery. */
  readonly duplicates: number;
  /** Deliveries with more answers of 2xx than one and one for each attempt whose answer is not known. */
  readonly unexplained: readonly string[];
  /** Deliveries of which receivers got more requests than attempts are recorded. */
  readonly unrecordedRequests: number;
}

interface StoredRow {
  readonly key: string;
  readonly event_id: string;
  readonly delivery_id: string | null;
  readonly attempts: number;
  /** Attempts that ended without an answer that is known here. */
  readonly unanswered: number;
}

const LEDGER_PAGE = 1_000_000;

/** The rows of these loads' events. */
const OF_LOADS = 'event_id IN (SELECT event_id FROM relayops.events WHERE type LIKE ANY ($1))';

/** Compares what the clients were told with what is stored and with what the receivers got. */
export async function takeAccount(
  site: CrashSite,
  loads: readonly Load[],
  receivers: readonly SimulatedReceiver[],
): Promise<Account> {
  const types = loads.map(({ name }) => `${name}.%`);
  const stored = await site.sql<StoredRow>(
    `SELECT e.idempotency_key AS key, e.event_id, d.delivery_id, a.attempts, a.unanswered
     FROM relayops.events e LEFT JOIN relayops.deliveries d USING (tenant_id, event_id) CROSS JOIN LATERAL (
       SELECT count(*)::int AS attempts, count(*) FILTER (WHERE t.http_status IS NULL)::int AS unanswered
       FROM relayops.delivery_attempts t WHERE t.event_id = d.event_id AND t.delivery_id = d.delivery_id) a
     WHERE e.${OF_LOADS}`,
    types,
  );
  const keys = new Set(stored.map((row) => row.key));
  return {
    events: stored.length,
    deliveriesByState: await tally(site, 'deliveries', 'state', types),
    attemptsByOutcome: await tally(site, 'delivery_attempts', 'outcome', types),
    withGaps: await deliveriesWith(
      site,
      types,
      'min(attempt_number) <> 1 OR max(attempt_number) <> count(*)',
    ),
    notEndedBySuccess: await deliveriesWith(
      site,
      types,
      `count(*) FILTER (WHERE outcome = 'success') <> 1
       OR max(attempt_number) FILTER (WHERE outcome = 'success') <> max(attempt_number)`,
    ),
    openWork: await site.number('SELECT count(*)::int AS n FROM relayops.delivery_work'),
    outboxRows: await site.number('SELECT count(*)::int AS n FROM relayops.outbox_messages'),
    lateResults: await site.number(
      `SELECT count(*)::int AS n FROM relayops.late_results WHERE ${OF_LOADS}`,
      types,
    ),
    storedThoughRefused: loads.flatMap(({ refused }) =>
      [...refused]
        .filter(([, refusal]) => refusal !== 'no answer' && refusal.code !== 'ACCEPTANCE_UNCERTAIN')
        .filter(([key]) => keys.has(key))
        .map(([key]) => key),
    ),
    storedTwice: stored.length - keys.size,
    ...compare(stored, loads, receivers),
  };
}

/** What holds after every fault, for events that nothing keeps from being delivered. */
export function expectNothingLost(account: Account, loads: readonly Load[]): void {
  expect(loads.flatMap(({ wrong }) => wrong)).toEqual([]);
  expect(account).toMatchObject({
    deliveriesByState: { succeeded: account.events },
    lost: [],
    storedThoughRefused: [],
    storedTwice: 0,
    withGaps: 0,
    notEndedBySuccess: 0,
    openWork: 0,
    outboxRows: 0,
    unexplained: [],
    unrecordedRequests: 0,
  });
}

function compare(
  stored: readonly StoredRow[],
  loads: readonly Load[],
  receivers: readonly SimulatedReceiver[],
): Pick<Account, 'lost' | 'duplicates' | 'unexplained' | 'unrecordedRequests'> {
  const ledger = new Map(
    receivers
      .flatMap((receiver) => receiver.deliveries({ limit: LEDGER_PAGE }))
      .map(([deliveryId, requests, okAnswers, sha256]) => [deliveryId, { requests, okAnswers, sha256 }]),
  );
  const received = stored.map((row) => ({
    ...row,
    ...(ledger.get(row.delivery_id ?? '') ?? { requests: 0, okAnswers: 0, sha256: '' }),
  }));
  const byEvent = new Map(received.map((row) => [row.event_id, row]));
  const isDelivered = (key: string, eventId: string): boolean => {
    const row = byEvent.get(eventId);
    return row !== undefined && row.okAnswers > 0 && row.sha256 === Load.sha256Of(key);
  };
  return {
    lost: loads.flatMap(({ accepted }) =>
      [...accepted].filter(([key, eventId]) => !isDelivered(key, eventId)).map(([key]) => key),
    ),
    duplicates: received.reduce((sum, { okAnswers }) => sum + Math.max(0, okAnswers - 1), 0),
    unexplained: received
      .filter(({ okAnswers, unanswered }) => okAnswers > 1 + unanswered)
      .map(({ event_id }) => event_id),
    unrecordedRequests: received.filter(({ requests, attempts }) => requests > attempts).length,
  };
}

function deliveriesWith(site: CrashSite, types: readonly string[], having: string): Promise<number> {
  return site.number(
    `SELECT count(*)::int AS n FROM (
       SELECT 1 FROM relayops.delivery_attempts WHERE ${OF_LOADS} GROUP BY delivery_id HAVING ${having}) d`,
    types,
  );
}

async function tally(
  site: CrashSite,
  table: string,
  column: string,
  types: readonly string[],
): Promise<Record<string, number>> {
  const rows = await site.sql<{ name: string; n: number }>(
    `SELECT ${column} AS name, count(*)::int AS n FROM relayops.${table} WHERE ${OF_LOADS} GROUP BY 1`,
    types,
  );
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]));
}
