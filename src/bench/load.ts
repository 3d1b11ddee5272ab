import { type Child, startChild, stopChild } from './bench-system.ts';
import type { LoadJob, LoadResult } from './load-client.ts';

/** The load process, started once a scenario. */
export class Load {
  readonly #child: Child;

  private constructor(child: Child) {
    this.#child = child;
  }

  static async start(): Promise<Load> {
    return new Load(await startChild('./load-client', []));
  }

  /** @throws when a connection breaks, or an answer has another status than expected */
  async run(job: LoadJob): Promise<LoadResult> {
    const answer = new Promise<{ result?: LoadResult; error?: string }>((resolve) =>
      this.#child.process.once('message', resolve as never),
    );
    this.#child.process.send(job);
    const { result, error } = await answer;
    if (result === undefined) throw new Error(`load failed: ${error}`);
    if (result.failed > 0)
      throw new Error(
        `${result.failed} of ${result.requests} requests were not answered ${job.expectStatus}`,
      );
    return result;
  }

  close(): Promise<void> {
    return stopChild(this.#child.process);
  }
}
