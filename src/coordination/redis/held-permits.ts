import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, Permit } from '../port.ts';

interface HeldPermit extends Permit {
  held: boolean;
  readonly rate: BucketLimit | null;
  /** Its token came from Redis, not from this process' share. */
  readonly isShared: boolean;
}

/** What one call of release gives back of one endpoint. */
export interface Returned {
  slots: number;
  /** Tokens that came from Redis and were not used. */
  tokens: number;
  /** Tokens that came from this process' share and were not used. */
  localTokens: number;
  rate: BucketLimit | null;
}

/** The permits that this process has out. */
export class HeldPermits {
  readonly counts = new Map<EndpointId, number>();

  countOf(endpointId: EndpointId): number {
    return this.counts.get(endpointId) ?? 0;
  }

  add(endpointId: EndpointId, count: number, rate: BucketLimit | null, isShared: boolean): Permit[] {
    if (count > 0) this.counts.set(endpointId, this.countOf(endpointId) + count);
    return Array.from({ length: count }, (): HeldPermit => ({ endpointId, held: true, rate, isShared }));
  }

  /** Those among `permits` that were still held, by endpoint. */
  release(permits: readonly Permit[], used: boolean): Map<EndpointId, Returned> {
    const returned = new Map<EndpointId, Returned>();
    for (const permit of permits as readonly HeldPermit[]) {
      if (!permit.held) continue;
      permit.held = false;
      const left = this.countOf(permit.endpointId) - 1;
      if (left > 0) this.counts.set(permit.endpointId, left);
      else this.counts.delete(permit.endpointId);
      let sum = returned.get(permit.endpointId);
      if (!sum) returned.set(permit.endpointId, (sum = { slots: 0, tokens: 0, localTokens: 0, rate: null }));
      sum.slots++;
      sum.rate = permit.rate;
      if (!used && permit.rate) sum[permit.isShared ? 'tokens' : 'localTokens']++;
    }
    return returned;
  }
}
