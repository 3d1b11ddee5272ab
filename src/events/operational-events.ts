import { lockNotices, type NoticeRow, removeNotices } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import { sleep } from '../shared/abort.ts';
import type { Acceptor } from './acceptor.ts';
import type { IncomingEvent } from './incoming.ts';

export interface OperationalEventsDeps {
  readonly database: Database;
  readonly acceptor: Acceptor;
  readonly onAccepted: (type: string) => void;
  readonly onError: (error: unknown) => void;
}

const LOOK_EVERY_MS = 1_000;
const BATCH = 50;

/**
 * Makes events of notices and accepts them as any other event: stored, routed, signed, retried. A notice is removed after its event is stored; its
 * idempotency key keeps a crash in between from making two. They do not feed on themselves: a delivery of an operational event that dies, makes
 * no notice.
 */
export class OperationalEvents {
  readonly #deps: OperationalEventsDeps;
  readonly #controller = new AbortController();
  #running: Promise<void> | undefined;

  constructor(deps: OperationalEventsDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let count = 0;
      try {
        count = await this.step();
      } catch (error) {
        this.#deps.onError(error);
      }
      if (count < BATCH) await sleep(LOOK_EVERY_MS, signal);
    }
  }

  /** Accepts the oldest notices that no other process has in hand. @returns how many */
  async step(): Promise<number> {
    const { database, acceptor, onAccepted } = this.#deps;
    return database.transaction(async (tx) => {
      const notices = await lockNotices(tx, BATCH);
      const results = await Promise.all(notices.map((notice) => acceptor.accept(toEvent(notice))));
      const done = notices.filter((_, index) => results[index]?.ok);
      if (done.length > 0)
        await removeNotices(
          tx,
          done.map((notice) => notice.notice_id),
        );
      for (const { type } of done) onAccepted(type);
      const failed = results.find((result) => !result.ok);
      if (failed && !failed.ok) this.#deps.onError(failed.error);
      return done.length;
    });
  }
}

function toEvent({ notice_id, tenant_id, type, endpoint_id, data, noticed_at }: NoticeRow): IncomingEvent {
  return {
    tenantId: tenant_id,
    type,
    contentType: 'application/json',
    payload: Buffer.from(JSON.stringify(data)),
    idempotencyKey: `relayops.notice/${notice_id}`,
    format: 'operational',
    attributes: null,
    traceparent: null,
    occurredAt: noticed_at,
    about: endpoint_id,
  };
}
