import { readFileSync, statSync } from 'node:fs';

/** How often a file is looked at, at most. */
const LOOK_EVERY_MS = 2_000;

/**
 * The parsed contents of a small local file, read again when the file has changed. A look is one synchronous `stat` (about 5 µs): the
 * asynchronous one would wait for the same four threads that other work can occupy. A file that is missing is an empty one.
 */
export class WatchedFile<T> {
  readonly #path: string;
  readonly #parse: (text: string) => T;
  readonly #now: () => number;
  #nextLookMs = Number.NEGATIVE_INFINITY;
  #version: string | undefined;
  #contents: T;

  /** @param now a monotonic clock in milliseconds */
  constructor(path: string, parse: (text: string) => T, now: () => number) {
    this.#path = path;
    this.#parse = parse;
    this.#now = now;
    this.#contents = parse('');
  }

  get contents(): T {
    const now = this.#now();
    if (now >= this.#nextLookMs) {
      this.#nextLookMs = now + LOOK_EVERY_MS;
      this.#look();
    }
    return this.#contents;
  }

  #look(): void {
    const stat = statSync(this.#path, { throwIfNoEntry: false });
    const version = stat === undefined ? '' : `${stat.ino}:${stat.size}:${stat.mtimeMs}`;
    if (version === this.#version) return;
    this.#version = version;
    this.#contents = this.#parse(stat === undefined ? '' : readText(this.#path));
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // Removed since the look, or not readable by this user: names are asked of the name servers then.
    return '';
  }
}
