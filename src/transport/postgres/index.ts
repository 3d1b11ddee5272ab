import { sleep, Wakeup } from '../../shared/abort.ts';
import type { EndpointId } from '../../shared/ids.ts';
import { countPermits, type Grant, LaneClaimer, type LaneClaimerDeps } from '../lane-claimer.ts';
import type { Capacity, ClaimedWork, DueWork, Transport } from '../port.ts';
import { Wakeups } from '../wakeups.ts';

export type PostgresTransportDeps = Omit<LaneClaimerDeps, 'takesSwept' | 'onChange' | 'horizonMs'>;

const ERROR_PAUSE_MS = 250;
/** While deliveries are in flight, a claim for fewer rows than this waits a moment for more slots to come free. */
const SMALL_CLAIM = 64;
const SMALL_CLAIM_PAUSE_MS = 2;

/**
 * The default transport: the work table itself. One claimer a process; which endpoints have work it hears from this process's
 * commits, from other processes' notifications, and from its sweep.
 */
export class PostgresTransport implements Transport {
  readonly name = 'postgres';
  readonly outboxFromMs = null;
  readonly #deps: PostgresTransportDeps;
  readonly #claimer: LaneClaimer;
  readonly #wakeup = new Wakeup();
  readonly #wakeups: Wakeups;
  /** New work was told of since the last claim: somebody waits for its latency. */
  #urgent = false;

  constructor(deps: PostgresTransportDeps) {
    this.#deps = deps;
    this.#claimer = new LaneClaimer({ ...deps, onChange: () => this.#wakeup.ring() });
    this.#wakeups = new Wakeups({
      database: deps.database,
      instance: deps.instance,
      onDue: (endpointIds) => {
        this.#urgent = true;
        this.#claimer.heard(endpointIds);
      },
      onError: (error) => deps.onError(error, 'wakeups'),
    });
  }

  /** Nothing: the work rows are the queue. */
  async enqueue(): Promise<void> {}

  /** Nothing: there is no message to acknowledge. */
  settled(): void {}

  announce(work: readonly DueWork[]): void {
    let due = false;
    for (const { endpointId, inMs } of work) {
      this.#claimer.note(endpointId, inMs);
      if (inMs > 0) continue;
      this.#wakeups.tell(endpointId);
      due = true;
    }
    if (!due) return;
    this.#urgent = true;
    this.#wakeup.ring();
  }

  endpointChanged(endpointId: EndpointId): void {
    this.announce([{ endpointId, inMs: 0 }]);
  }

  async *receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]> {
    await this.#wakeups.listen();
    capacity.onMore(() => this.#wakeup.ring());
    while (!signal.aborted) {
      try {
        const work = await this.#step(capacity, signal);
        if (work.length > 0) yield work;
      } catch (error) {
        this.#deps.onError(error, 'claim');
        await sleep(ERROR_PAUSE_MS, signal);
      }
    }
  }

  async close(): Promise<void> {
    await this.#claimer.close();
    await this.#wakeups.close();
  }

  /** One turn: claims, or waits until something can be claimed. */
  async #step(capacity: Capacity, signal: AbortSignal): Promise<ClaimedWork[]> {
    const claimer = this.#claimer;
    await claimer.lookAround();
    const grants = await this.#permits(capacity, signal);
    if (countPermits(grants) > 0) {
      this.#urgent = false;
      return claimer.claim(grants);
    }
    await this.#wakeup.wait(claimer.idleMs(), signal);
    return [];
  }

  async #permits(capacity: Capacity, signal: AbortSignal): Promise<Grant[]> {
    const { config } = this.#deps;
    const room = (): number => Math.min(capacity.free(), config['delivery.claimBatch']);
    if (this.#urgent || capacity.free() >= config['delivery.concurrency'])
      return this.#claimer.permitsInTurn(room());
    const grants = await this.#claimer.permits(room());
    if (countPermits(grants) >= SMALL_CLAIM) {
      this.#claimer.turn(grants);
      return grants;
    }
    // Slots come free one by one while requests end: gather them, or each claim would bring a row or two.
    this.#claimer.giveBack(grants);
    await sleep(SMALL_CLAIM_PAUSE_MS, signal);
    return this.#claimer.permitsInTurn(room());
  }
}
