import type { Config } from '../config/index.ts';
import { type BacklogSample, sampleBacklog, sampleTenants } from '../delivery/index.ts';
import { countHeldBack } from '../endpoints/index.ts';
import { countMessages } from '../outbox/index.ts';
import type { Database } from '../platform/db/database.ts';
import { sleep } from '../shared/abort.ts';
import type { TenantId } from '../shared/ids.ts';

export interface AdmissionDeps {
  readonly database: Database;
  readonly config: Config;
  /** Messages in the broker's ready queue, null when it cannot say; absent on a transport without messages. */
  readonly readyMessages?: () => Promise<number | null>;
  readonly onSample: (sample: AdmissionSample) => void;
  readonly onError: (error: unknown) => void;
}

export interface AdmissionSample extends BacklogSample {
  readonly outbox: number;
  readonly ready: number;
  /** Endpoints whose deliveries wait, by why. */
  readonly heldBack: { readonly open: number; readonly disabled: number; readonly paused: number };
  readonly gates: readonly GateState[];
  readonly tenantsOver: number;
}

export type GateName = 'pending' | 'outbox' | 'ready';

export interface GateState {
  readonly name: GateName;
  readonly value: number;
  readonly high: number;
  readonly full: boolean;
}

/** Why a tenant's events are not taken now. */
export interface Refusal {
  readonly why: GateName | 'tenant';
  readonly detail: string;
}

/** Above this multiple of its threshold a gate is closed for everybody, whatever they hold. */
const HARD = 1.25;

/** Closes at its high threshold and opens again below its low one, so that it does not flap. Pure. */
export class Gate {
  readonly name: GateName;
  readonly high: number;
  readonly #low: number;
  #value = 0;
  #full = false;

  constructor(name: GateName, high: number, low: number) {
    this.name = name;
    this.high = high;
    this.#low = low;
  }

  see(value: number): void {
    this.#value = value;
    if (value >= this.high) this.#full = true;
    else if (value < this.#low) this.#full = false;
  }

  state(): GateState {
    return { name: this.name, value: this.#value, high: this.high, full: this.#full };
  }
}

/**
 * Who may send more, by what is waiting (SPEC C4): open deliveries, and with a broker its outbox and its ready queue. A gate that is full
 * closes for the tenants that hold their fair share of the open deliveries or more, and at 1.25 times its threshold for all. Apart from that no
 * tenant may hold more than its set share of the threshold. Everything is sampled, so each bound is passed by what comes in between two looks.
 */
export class Admission {
  readonly #deps: AdmissionDeps;
  readonly #controller = new AbortController();
  readonly #gates: Readonly<Record<GateName, Gate>>;
  readonly #overShare = new Set<TenantId>();
  #tenants: ReadonlyMap<TenantId, number> = new Map();
  #running: Promise<void> | undefined;

  constructor(deps: AdmissionDeps) {
    const { config } = deps;
    this.#deps = deps;
    this.#gates = {
      pending: new Gate('pending', config['ingest.backlogHigh'], config['ingest.backlogLow']),
      outbox: new Gate('outbox', config['ingest.outboxHigh'], config['ingest.outboxLow']),
      ready: new Gate('ready', config['ingest.readyHigh'], config['ingest.readyLow']),
    };
  }

  /** Gates as of the last sample, for readiness. */
  state(): { full: boolean; gates: readonly GateState[] } {
    const gates = Object.values(this.#gates).map((gate) => gate.state());
    return { full: gates.some((gate) => gate.full), gates };
  }

  /** Null when the tenant's events are taken. */
  refusal(tenantId: TenantId): Refusal | null {
    const held = this.#tenants.get(tenantId) ?? 0;
    for (const { name, value, high, full } of this.state().gates) {
      if (!full) continue;
      if (value >= high * HARD || held >= this.#fairShare())
        return { why: name, detail: `About ${value} ${WORDS[name]}.` };
    }
    if (!this.#overShare.has(tenantId)) return null;
    return {
      why: 'tenant',
      detail: `About ${held} deliveries of this tenant are waiting, which is its share.`,
    };
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  /** Samples now; the loop does it by itself. */
  async look(): Promise<void> {
    const { database, config, readyMessages, onSample } = this.#deps;
    const backlog = await sampleBacklog(database.requests);
    const outbox = readyMessages ? await countMessages(database.requests) : 0;
    const ready = (await readyMessages?.()) ?? 0;
    this.#gates.pending.see(backlog.open);
    this.#gates.outbox.see(outbox);
    this.#gates.ready.see(ready);
    const share = config['ingest.tenantShare'];
    // Below that nobody can hold too much, and nobody needs to be counted.
    const isTight = this.state().full || backlog.open >= share * config['ingest.backlogLow'];
    this.#tenants = isTight ? await sampleTenants(database.requests, backlog.open) : new Map();
    this.#judgeShares(share * config['ingest.backlogHigh'], share * config['ingest.backlogLow']);
    const heldBack = await countHeldBack(database.requests);
    onSample({
      ...backlog,
      outbox,
      ready,
      heldBack,
      gates: this.state().gates,
      tenantsOver: this.#overShare.size,
    });
  }

  #judgeShares(high: number, low: number): void {
    for (const [tenantId, open] of this.#tenants) if (open >= high) this.#overShare.add(tenantId);
    for (const tenantId of this.#overShare)
      if ((this.#tenants.get(tenantId) ?? 0) < low) this.#overShare.delete(tenantId);
  }

  /** What each would hold if all held the same. */
  #fairShare(): number {
    let total = 0;
    for (const open of this.#tenants.values()) total += open;
    return total / Math.max(1, this.#tenants.size);
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.look();
      } catch (error) {
        this.#deps.onError(error);
      }
      await sleep(this.#deps.config['ingest.backlogSampleMs'], signal);
    }
  }
}

const WORDS: Readonly<Record<GateName, string>> = {
  pending: 'deliveries are waiting',
  outbox: 'messages wait to be handed to the broker',
  ready: 'messages wait in the broker',
};
