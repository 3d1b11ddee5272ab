import { type Child, startChild, stopChild } from './bench-system.ts';
import type { LatencyJob, LatencyResult } from './latency-peer.ts';

/** The process that sends events and receives their deliveries. */
export class LatencyPeer {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  static async start(): Promise<LatencyPeer> {
    return new LatencyPeer(await startChild('./latency-peer', []));
  }

  /** Where its receiver listens. */
  get url(): string {
    return this.#child.ready['url'] as string;
  }

  async run(job: LatencyJob): Promise<LatencyResult> {
    const answer = new Promise<{ result?: LatencyResult; error?: string }>((resolve) =>
      this.#child.process.once('message', resolve as never),
    );
    this.#child.process.send(job);
    const { result, error } = await answer;
    if (result === undefined) throw new Error(`latency peer failed: ${error}`);
    return result;
  }

  close(): Promise<void> {
    return stopChild(this.#child.process);
  }
}
