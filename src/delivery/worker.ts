import type { Config } from '../config/index.ts';
import type { Coordination } from '../coordination/port.ts';
import { disableEndpoint, type EndpointDirectory, type HealthChange } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { SendOutcome } from '../platform/http/send-outcome.ts';
import type { HttpSender } from '../platform/http/sender.ts';
import type { Clock } from '../shared/clock.ts';
import { type DeliveryId, type EndpointId, newId } from '../shared/ids.ts';
import type { Capacity, ClaimedWork, Transport } from '../transport/port.ts';
import {
  type AttemptedSend,
  type AttemptTiming,
  deferWithoutAttempt,
  endWithoutAttempt,
  judgeAttempt,
  type Judgement,
  unknownAttempt,
} from './attempt.ts';
import type { FinishedAttempt } from './finish.sql.ts';
import { Finisher } from './finisher.ts';
import { HealthWatch } from './health-watch.ts';
import { PayloadLoader } from './payload-loader.ts';
import { requestHeaders } from './request.ts';

/** What observers (metrics, the log) are told of one attempt. */
export interface AttemptReport {
  readonly work: ClaimedWork;
  readonly judgement: Judgement;
  readonly httpStatus: number | null;
  readonly errorCode: string | null;
  readonly durationMs: number;
}

export interface WorkerDeps {
  readonly database: Database;
  readonly transport: Transport;
  readonly coordination: Coordination;
  readonly directory: EndpointDirectory;
  readonly sender: HttpSender;
  readonly config: Config;
  readonly clock: Clock;
  readonly instance: string;
  readonly onAttempt: (report: AttemptReport) => void;
  readonly onHealthChange: (change: HealthChange, endpointId: EndpointId) => void;
  readonly onLate: (deliveryIds: ReadonlySet<DeliveryId>) => void;
  readonly onError: (error: unknown, what: string) => void;
}

/**
 * Takes claimed work from the transport, sends it, and hands the results to the finisher. No transaction and no connection is held
 * while a request is in flight.
 */
export class DeliveryWorker {
  readonly #deps: WorkerDeps;
  readonly #finisher: Finisher;
  readonly #payloads: PayloadLoader;
  readonly #health: HealthWatch;
  readonly #intake = new AbortController();
  /** A graceful stop ran out of time: nothing more is sent. */
  #isCut = false;
  readonly #capacity: Capacity;
  #inFlight = 0;
  #more: () => void = () => undefined;
  #idle: (() => void) | undefined;
  #running: Promise<void> | undefined;

  constructor(deps: WorkerDeps) {
    this.#deps = deps;
    this.#payloads = new PayloadLoader(deps.database, deps.config['delivery.maxPayloadMemoryBytes']);
    this.#finisher = new Finisher({
      database: deps.database,
      worker: deps.instance,
      maxBatch: deps.config['delivery.finishBatch'],
      outbox:
        deps.transport.outboxFromMs === null
          ? null
          : { fromMs: deps.transport.outboxFromMs, newId: () => newId<DeliveryId>(deps.clock.now()) },
      onCommitted: (batch, late) => this.#committed(batch, late),
      onRefused: (result) => {
        deps.transport.settled([result]);
        this.#more();
      },
      onError: (error) => deps.onError(error, 'finish'),
    });
    this.#health = new HealthWatch({
      database: deps.database,
      directory: deps.directory,
      config: deps.config,
      onChange: (change, endpointId) => this.#healthChanged(change, endpointId),
      onError: (error) => deps.onError(error, 'health'),
    });
    const maxBacklog = deps.config['delivery.finishBatch'] * 4;
    this.#capacity = {
      free: () =>
        this.#finisher.isStalled || this.#finisher.backlog > maxBacklog
          ? 0
          : Math.max(0, deps.config['delivery.concurrency'] - this.#inFlight),
      onMore: (listener) => void (this.#more = listener),
    };
  }

  /** Deliveries whose request is being sent now. */
  get inFlight(): number {
    return this.#inFlight;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Takes no new work. Idempotent; `stop` does it as well. */
  stopIntake(): void {
    this.#intake.abort();
  }

  /**
   * Stops in order: no new work, requests in flight end by themselves until `deadline` aborts, then they are ended and recorded as
   * unknown; results are committed. Idempotent.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.stopIntake();
    const cut = (): void => {
      this.#isCut = true;
      this.#payloads.stop();
      this.#deps.sender.abortAll();
    };
    deadline.addEventListener('abort', cut, { once: true });
    if (deadline.aborted) cut();
    await this.#running;
    if (this.#inFlight > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    deadline.removeEventListener('abort', cut);
    const limit = AbortSignal.timeout(FLUSH_MS);
    await this.#finisher.flush(limit);
    await this.#health.idle(limit);
  }

  async #run(): Promise<void> {
    for await (const batch of this.#deps.transport.receive(this.#capacity, this.#intake.signal)) {
      for (const work of batch) {
        this.#inFlight += 1;
        void this.#deliver(work);
      }
    }
  }

  /** One delivery from claim to result. Whatever goes wrong in here concerns this delivery only. */
  async #deliver(work: ClaimedWork): Promise<void> {
    const progress = { sent: false };
    try {
      const result = this.#withoutSending(work);
      if (result) this.#finisher.add(result);
      else await this.#attempt(work, progress);
    } catch (error) {
      this.#deps.onError(error, 'delivery');
      // Once something was sent it is not known what became of it; before that nothing happened.
      this.#finisher.add(progress.sent ? unknownAttempt(work, this.#deps.clock.now()) : this.#deferred(work));
    } finally {
      this.#deps.coordination.release([work.permit], progress.sent);
      this.#inFlight -= 1;
      this.#more();
      if (this.#inFlight === 0) this.#idle?.();
    }
  }

  /** The result when nothing may be sent, or null. */
  #withoutSending(work: ClaimedWork): FinishedAttempt | null {
    const { target } = work;
    if (work.eventType === '') return endWithoutAttempt(work, 'cancelled', 'event_missing');
    if (target.state === 'deleted') return endWithoutAttempt(work, 'cancelled', 'endpoint_deleted');
    if (target.state !== 'active') return this.#deferred(work);
    // The attempt before this one was the last allowed, and its worker vanished.
    if (work.attemptNumber - work.priorAttempts > target.retry.maxAttempts)
      return endWithoutAttempt(work, 'dead', 'attempts_exhausted');
    return null;
  }

  async #attempt(work: ClaimedWork, progress: { sent: boolean }): Promise<void> {
    const payload = work.payload
      ? { bytes: work.payload, release: noRelease }
      : await this.#payloads.load(work, this.#msToSpare(work));
    // A request that could end after its lease might run beside its successor's.
    if (payload === null || this.#msToSpare(work) < 0 || this.#isCut) {
      payload?.release();
      this.#finisher.add(this.#deferred(work));
      return;
    }
    const startedAtMs = this.#deps.clock.now();
    const started = performance.now();
    let sent: SendOutcome;
    try {
      const headers = requestHeaders(work, payload.bytes, startedAtMs);
      progress.sent = true;
      sent = await this.#deps.sender.send({
        url: work.target.url,
        headers,
        body: payload.bytes,
        timeoutMs: work.target.timeoutMs,
        share: work.tenantId,
      });
    } finally {
      payload.release();
    }
    if (sent.kind === 'deferred') {
      progress.sent = false;
      this.#finisher.add(this.#deferred(work));
      return;
    }
    this.#record(work, sent, { startedAtMs, durationMs: performance.now() - started });
  }

  #record(work: ClaimedWork, sent: AttemptedSend, timing: AttemptTiming): void {
    const { config } = this.#deps;
    const rules = {
      retryAfterCapMs: config['delivery.retryAfterCapMs'],
      keepResponseBytes: config['delivery.keepResponseBytes'],
    };
    const judgement = judgeAttempt(work, sent, timing, rules, Math.random());
    this.#finisher.add(judgement.result);
    if (judgement.disposition.kind === 'failed' && judgement.disposition.disableEndpoint)
      void this.#disable(work);
    const { attempt } = judgement.result;
    try {
      this.#deps.onAttempt({
        work,
        judgement,
        httpStatus: attempt?.httpStatus ?? null,
        errorCode: attempt?.errorCode ?? null,
        durationMs: timing.durationMs,
      });
    } catch (error) {
      // The result is on its way; an observer's fault must not make a second one.
      this.#deps.onError(error, 'observer');
    }
  }

  /** Time left until the longest this attempt may take would outlast its lease. */
  #msToSpare(work: ClaimedWork): number {
    return (
      work.leaseEndsAtMs -
      performance.now() -
      work.target.timeoutMs -
      this.#deps.config['delivery.leaseMarginMs'] / 2
    );
  }

  #deferred(work: ClaimedWork): FinishedAttempt {
    return deferWithoutAttempt(work, this.#isCut ? 0 : this.#deps.config['delivery.deferMs']);
  }

  /** 410 Gone. When the database is away, or the endpoint was changed meanwhile, it stays as it is. */
  async #disable(work: ClaimedWork): Promise<void> {
    try {
      const isDisabled = await disableEndpoint(
        this.#deps.database.delivery,
        work.endpointId,
        work.target.version,
        'The receiver answered 410 Gone.',
      );
      this.#deps.directory.forgetTarget(work.endpointId);
      if (isDisabled) this.#healthChanged('disabled', work.endpointId);
    } catch (error) {
      this.#deps.onError(error, 'disable');
    }
  }

  #healthChanged(change: HealthChange, endpointId: EndpointId): void {
    this.#deps.transport.endpointChanged(endpointId);
    this.#deps.onHealthChange(change, endpointId);
  }

  #committed(batch: readonly FinishedAttempt[], late: ReadonlySet<DeliveryId>): void {
    this.#deps.transport.settled(batch);
    this.#health.saw(batch);
    const pending: { endpointId: FinishedAttempt['endpointId']; inMs: number }[] = [];
    for (const { endpointId, next } of batch)
      if (next.kind === 'pending') pending.push({ endpointId, inMs: Math.max(1, next.delayMs) });
    if (pending.length > 0) this.#deps.transport.announce(pending);
    if (late.size > 0) this.#deps.onLate(late);
    this.#more();
  }
}

/** How long a stop waits for the last results to be committed. */
const FLUSH_MS = 5_000;

function noRelease(): void {
  // Inline payloads are bounded by the claim, so there is nothing to give back.
}
