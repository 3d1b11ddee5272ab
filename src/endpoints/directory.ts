import { createSecretKey } from 'node:crypto';
import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import { sleep } from '../shared/abort.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import { findRouting, findTargets, findVersions, type TargetWithSecrets } from './directory.sql.ts';
import { RoutingTable } from './routing.ts';
import { openHeaders } from './sealed-headers.ts';
import type { SecretBox } from './secret-box.ts';
import { type DeliveryTarget, toFailing, toTarget } from './target.ts';

const MAX_TARGETS = 50_000;
const MAX_TABLES = 10_000;
/** A change made by another process is seen after this at the latest. */
const REFRESH_MS = 1_000;

export interface DirectoryDeps {
  readonly database: Database;
  readonly config: Config;
  readonly secretBox: SecretBox;
  readonly onError: (error: unknown) => void;
}

/**
 * What this process knows of endpoints: delivery targets by ID, routing tables by tenant. Targets are compared with the database
 * every second; a routing table is compared in each accepting statement, so that it can never route by an old one.
 */
export class EndpointDirectory {
  readonly #deps: DirectoryDeps;
  readonly #targets = new Map<EndpointId, DeliveryTarget>();
  readonly #tables = new Map<TenantId, RoutingTable | Promise<RoutingTable>>();
  #refreshing: { readonly controller: AbortController; readonly done: Promise<void> } | undefined;

  constructor(deps: DirectoryDeps) {
    this.#deps = deps;
  }

  start(): void {
    if (this.#refreshing) return;
    const controller = new AbortController();
    this.#refreshing = { controller, done: this.#refreshLoop(controller.signal) };
  }

  async stop(): Promise<void> {
    this.#refreshing?.controller.abort();
    await this.#refreshing?.done;
    this.#refreshing = undefined;
  }

  /** Targets by ID; an ID that does not exist is absent. Costs no query when all are known. */
  async targets(ids: readonly EndpointId[]): Promise<ReadonlyMap<EndpointId, DeliveryTarget>> {
    const found = new Map<EndpointId, DeliveryTarget>();
    const missing: EndpointId[] = [];
    for (const id of ids) {
      const target = this.#targets.get(id);
      if (target) found.set(id, target);
      else missing.push(id);
    }
    // What loading drops to make room must not be missing from the answer.
    if (missing.length > 0)
      for (const target of await this.#load(missing)) found.set(target.endpointId, target);
    return found;
  }

  /** Every active change of one endpoint in this process ends here, so that it counts at once. */
  forgetTarget(endpointId: EndpointId): void {
    this.#targets.delete(endpointId);
  }

  /** Another process told of work: an endpoint that was waiting here has perhaps been resumed there, or has recovered. */
  forgetWaitingTarget(endpointId: EndpointId): void {
    const target = this.#targets.get(endpointId);
    if (target?.state !== 'active' || target.failing !== null) this.#targets.delete(endpointId);
  }

  /** Whether an endpoint is known to be failing, as of a second ago at most. */
  isFailing(endpointId: EndpointId): boolean {
    return this.#targets.get(endpointId)?.failing != null;
  }

  /** The tenant's table, at once when it is known. */
  routing(tenantId: TenantId): RoutingTable | Promise<RoutingTable> {
    const known = this.#tables.get(tenantId);
    if (known) return known;
    const loading = this.#loadRouting(tenantId);
    if (this.#tables.size >= MAX_TABLES) this.#tables.clear();
    this.#tables.set(tenantId, loading);
    loading.then(
      // Unless it was forgotten meanwhile, because it is old already.
      (table) => this.#tables.get(tenantId) === loading && this.#tables.set(tenantId, table),
      () => this.#tables.get(tenantId) === loading && this.forgetRouting(tenantId),
    );
    return loading;
  }

  async #loadRouting(tenantId: TenantId): Promise<RoutingTable> {
    const { version, rows } = await findRouting(this.#deps.database.delivery, tenantId);
    return new RoutingTable(version, rows);
  }

  forgetRouting(tenantId: TenantId): void {
    this.#tables.delete(tenantId);
  }

  async #load(ids: readonly EndpointId[]): Promise<DeliveryTarget[]> {
    const targets = (await findTargets(this.#deps.database.delivery, ids)).map((row) => this.#toTarget(row));
    if (this.#targets.size + targets.length > MAX_TARGETS) this.#targets.clear();
    for (const target of targets) this.#targets.set(target.endpointId, target);
    return targets;
  }

  /** A secret or header that does not open (sealed with a key that is lost) makes its endpoint wait, and hurts no other. */
  #toTarget(row: TargetWithSecrets): DeliveryTarget {
    try {
      const secrets = row.secrets.map((secret) => ({
        key: createSecretKey(
          this.#deps.secretBox.open(Buffer.from(secret.ciphertext, 'base64'), row.endpoint_id),
        ),
        expiresAtMs: secret.expires_at === null ? null : Date.parse(secret.expires_at),
      }));
      return toTarget(row, { secrets, headers: openHeaders(this.#deps.secretBox, row) }, this.#deps.config);
    } catch (error) {
      this.#deps.onError(
        new Error(
          `endpoint ${row.endpoint_id}: its signing secret or a header cannot be decrypted; its deliveries wait`,
          { cause: error },
        ),
      );
      return toTarget({ ...row, state: 'disabled' }, { secrets: [], headers: {} }, this.#deps.config);
    }
  }

  async #refreshLoop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await sleep(REFRESH_MS, signal);
      if (signal.aborted || this.#targets.size === 0) continue;
      try {
        await this.#refresh();
      } catch (error) {
        this.#deps.onError(error);
      }
    }
  }

  async #refresh(): Promise<void> {
    const current = await findVersions(this.#deps.database.delivery, [...this.#targets.keys()]);
    const changed: EndpointId[] = [];
    for (const row of current) {
      const target = this.#targets.get(row.endpoint_id);
      if (target?.version !== row.version) changed.push(row.endpoint_id);
      else if (target.failing !== null || row.failures !== null)
        this.#targets.set(row.endpoint_id, { ...target, failing: toFailing(row) });
    }
    if (changed.length > 0) await this.#load(changed);
  }
}
