import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Piscina } from 'piscina';
import { TurnQueue } from '../../shared/turn-queue.ts';
import type { FilterReport, FilterTask, Verdict } from './filter-worker.ts';

export type { Verdict } from './filter-worker.ts';

export interface FilterPoolOptions {
  /** Worker threads. One owner uses all but one of them at a time. */
  readonly threads: number;
  /** For all filters of one event, in ms. */
  readonly deadlineMs: number;
  /** What the filters of one owner may use of the threads' time, in ms a second. It may be saved up for 4 s. */
  readonly cpuMsPerSecond: number;
  /** How long an event waits for a thread and for its owner's time. */
  readonly maxWaitMs: number;
  readonly onReport?: (report: { readonly durationMs: number; readonly waitedMs: number }) => void;
  readonly onError?: (error: unknown) => void;
}

type Work = Omit<FilterTask, 'deadlineMs'>;

interface Job {
  readonly owner: string;
  readonly work: Work;
  readonly queuedAt: number;
  readonly timer: NodeJS.Timeout;
  readonly resolve: (verdicts: Verdict[]) => void;
}

/** What an owner has used. Kept while it is not at rest, so there are as many as have used a thread lately. */
interface Account {
  balanceMs: number;
  at: number;
  running: number;
}

const SAVED_S = 4;
/** A thread that does not come back from a deadline is in one long step of the engine. It is ended, which costs its start. */
const HANGING_MS = 500;
const THREAD_MEMORY_MB = 128;
const LOOK_AT_BUDGETS_MS = 50;
const MAX_ACCOUNTS = 10_000;

/**
 * Evaluates filters in worker threads, so that none holds the event loop. Fair over owners (tenants): they take turns, none
 * uses all threads, and each has a budget of time. What exceeds its deadline, its budget or its wait ends with a verdict that says so.
 */
export class FilterPool {
  readonly #options: FilterPoolOptions;
  readonly #waiting = new TurnQueue<string, Job>();
  readonly #accounts = new Map<string, Account>();
  #threads: Piscina<FilterTask, FilterReport> | undefined;
  #running = 0;
  #look: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: FilterPoolOptions) {
    this.#options = options;
  }

  /** Verdicts in the order of the sources. Never rejects: what went wrong is in the verdicts. */
  judge(owner: string, work: Work): Promise<Verdict[]> {
    const { maxWaitMs } = this.#options;
    return new Promise((resolve) => {
      const job: Job = {
        owner,
        work,
        queuedAt: performance.now(),
        resolve,
        timer: setTimeout(() => {
          resolve(allFailed(work, `no time for the filters of this event within ${maxWaitMs} ms`));
        }, maxWaitMs),
      };
      this.#waiting.push(owner, job);
      this.#start();
    });
  }

  /** Ends the threads. What waits or runs fails. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#look);
    for (let job = this.#waiting.shift(); job; job = this.#waiting.shift())
      this.#fail(job, 'this process stops');
    await this.#threads?.destroy();
  }

  #start(): void {
    const { threads } = this.#options;
    while (this.#running < threads && this.#waiting.size > 0) {
      const job = this.#waiting.shiftWhere((owner, next) => this.#mayRun(owner, next));
      if (job === undefined) return this.#lookLater();
      if (!isPast(job, this.#options.maxWaitMs)) void this.#run(job);
    }
  }

  #mayRun(owner: string, next: Job): boolean {
    if (isPast(next, this.#options.maxWaitMs)) return true;
    const { running, balanceMs } = this.#account(owner);
    return running < Math.max(1, this.#options.threads - 1) && balanceMs > 0;
  }

  /** Only budgets can be short while a thread is free: they fill up with time. */
  #lookLater(): void {
    this.#look ??= setTimeout(() => {
      this.#look = undefined;
      this.#start();
    }, LOOK_AT_BUDGETS_MS);
  }

  async #run(job: Job): Promise<void> {
    const { deadlineMs } = this.#options;
    const account = this.#account(job.owner);
    const started = performance.now();
    clearTimeout(job.timer);
    this.#running += 1;
    account.running += 1;
    let used = 0;
    try {
      const task: FilterTask = { ...job.work, deadlineMs };
      const report = await this.#pool().run(task, { signal: AbortSignal.timeout(deadlineMs + HANGING_MS) });
      used = report.durationMs;
      job.resolve(report.verdicts);
      this.#options.onReport?.({ durationMs: used, waitedMs: started - job.queuedAt });
    } catch (error) {
      used = performance.now() - started;
      this.#fail(
        job,
        `the filters of this event could not be evaluated within ${deadlineMs} ms and ${THREAD_MEMORY_MB} MB`,
      );
      if (!this.#closed) this.#options.onError?.(error);
    } finally {
      account.balanceMs -= used;
      account.running -= 1;
      this.#running -= 1;
      if (!this.#closed) this.#start();
    }
  }

  #fail({ work, timer, resolve }: Job, reason: string): void {
    clearTimeout(timer);
    resolve(allFailed(work, reason));
  }

  /** Threads start with the first filter that needs one. */
  #pool(): Piscina<FilterTask, FilterReport> {
    this.#threads ??= new Piscina<FilterTask, FilterReport>({
      filename: fileURLToPath(
        new URL(`./filter-worker${path.extname(import.meta.filename)}`, import.meta.url),
      ),
      minThreads: this.#options.threads,
      maxThreads: this.#options.threads,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: THREAD_MEMORY_MB },
    });
    return this.#threads;
  }

  #account(owner: string): Account {
    const { cpuMsPerSecond } = this.#options;
    const full = cpuMsPerSecond * SAVED_S;
    const now = performance.now();
    let account = this.#accounts.get(owner);
    if (account === undefined) {
      if (this.#accounts.size >= MAX_ACCOUNTS) this.#forgetRested(full, now);
      this.#accounts.set(owner, (account = { balanceMs: full, at: now, running: 0 }));
    }
    account.balanceMs = Math.min(full, account.balanceMs + ((now - account.at) * cpuMsPerSecond) / 1000);
    account.at = now;
    return account;
  }

  /** A full budget says as much as none. */
  #forgetRested(full: number, now: number): void {
    for (const [owner, { running, balanceMs, at }] of this.#accounts)
      if (running === 0 && balanceMs + ((now - at) * this.#options.cpuMsPerSecond) / 1000 >= full)
        this.#accounts.delete(owner);
  }
}

function isPast(job: Job, maxWaitMs: number): boolean {
  return performance.now() - job.queuedAt >= maxWaitMs;
}

function allFailed(work: Work, error: string): Verdict[] {
  return work.sources.map(() => ({ error }));
}
