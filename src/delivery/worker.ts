import type { Config } from '../config/index.ts';
import type { Coordination } from '../coordination/port.ts';
import { disableEndpoint, type EndpointDirectory } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { HttpSender } from '../platform/http/sender.ts';
import type { Clock } from '../shared/clock.ts';
import type { DeliveryId } from '../shared/ids.ts';
import type { Capacity, ClaimedWork, Transport } from '../transport/port.ts';
import { deferWithoutAttempt, endWithoutAttempt, judgeAttempt, type Judgement } from './attempt.ts';
import type { FinishedAttempt } from './finish.sql.ts';
import { Finisher } from './finisher.ts';
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
  readonly #intake = new AbortController();
  /** Aborts waits for payloads when a graceful stop runs out of time; requests in flight are ended through the sender. */
  readonly #hardStop = new AbortController();
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
      onCommitted: (batch, late) => this.#committed(batch, late),
      onError: (error) => deps.onError(error, 'finish'),
    });
    const maxBacklog = deps.config['delivery.finishBatch'] * 4;
    this.#capacity = {
      free: () =>
        this.#finisher.backlog > maxBacklog
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

  /**
   * Stops in order: no new work, requests in flight end by themselves until `deadline` aborts, then they are ended and recorded as
   * unknown; results are committed. Idempotent.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#intake.abort();
    await this.#running;
    const hardStop = (): void => {
      this.#hardStop.abort();
      this.#deps.sender.abortAll();
    };
    deadline.addEventListener('abort', hardStop, { once: true });
    if (deadline.aborted) hardStop();
    if (this.#inFlight > 0) await new Promise<void>((resolve) => (this.#idle = resolve));
    deadline.removeEventListener('abort', hardStop);
    await this.#finisher.flush(AbortSignal.timeout(FLUSH_MS));
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
    let used = false;
    try {
      const ready = this.#withoutSending(work);
      if (ready) this.#finisher.add(ready);
      else {
        used = true;
        await this.#attempt(work);
      }
    } catch (error) {
      this.#deps.onError(error, 'delivery');
      this.#finisher.add(deferWithoutAttempt(work, this.#deps.config['delivery.deferMs']));
    } finally {
      this.#deps.coordination.release([work.permit], used);
      this.#inFlight -= 1;
      this.#more();
      if (this.#inFlight === 0) this.#idle?.();
    }
  }

  /** The result when nothing may be sent, or null. */
  #withoutSending(work: ClaimedWork): FinishedAttempt | null {
    const { target } = work;
    if (this.#hardStop.signal.aborted) return deferWithoutAttempt(work, 0);
    if (work.eventType === '') return endWithoutAttempt(work, 'cancelled', 'event_missing');
    if (target.state === 'deleted') return endWithoutAttempt(work, 'cancelled', 'endpoint_deleted');
    if (target.state !== 'active') return deferWithoutAttempt(work, this.#deps.config['delivery.deferMs']);
    // The attempt before this one was the last allowed, and its worker vanished.
    if (work.attemptNumber - work.priorAttempts > target.retry.maxAttempts)
      return endWithoutAttempt(work, 'dead', 'attempts_exhausted');
    return null;
  }

  async #attempt(work: ClaimedWork): Promise<void> {
    const { clock, config, sender } = this.#deps;
    const payload = work.payload
      ? { bytes: work.payload, release: noRelease }
      : await this.#payloads.load(work, this.#hardStop.signal);
    const startedAtMs = clock.now();
    const started = performance.now();
    const sent = await sender.send({
      url: work.target.url,
      headers: requestHeaders(work, payload.bytes, startedAtMs),
      body: payload.bytes,
      timeoutMs: work.target.timeoutMs,
    });
    payload.release();
    const durationMs = performance.now() - started;
    const rules = {
      retryAfterCapMs: config['delivery.retryAfterCapMs'],
      keepResponseBytes: config['delivery.keepResponseBytes'],
    };
    const judgement = judgeAttempt(work, sent, { startedAtMs, durationMs }, rules, Math.random());
    if (judgement.disposition.kind === 'failed' && judgement.disposition.disableEndpoint)
      await this.#disable(work);
    this.#finisher.add(judgement.result);
    const { attempt } = judgement.result;
    this.#deps.onAttempt({
      work,
      judgement,
      httpStatus: attempt?.httpStatus ?? null,
      errorCode: attempt?.errorCode ?? null,
      durationMs,
    });
  }

  /** 410 Gone. When the database is away the endpoint stays as it is, and its next delivery says 410 again. */
  async #disable(work: ClaimedWork): Promise<void> {
    try {
      await disableEndpoint(this.#deps.database.requests, work.endpointId, 'The receiver answered 410 Gone.');
      this.#deps.directory.forgetTarget(work.endpointId);
    } catch (error) {
      this.#deps.onError(error, 'disable');
    }
  }

  #committed(batch: readonly FinishedAttempt[], late: ReadonlySet<DeliveryId>): void {
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
