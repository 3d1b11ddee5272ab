import { randomBytes } from 'node:crypto';
import { hash, verify } from '@node-rs/argon2';
import { serviceUnavailable } from '../platform/http/problem.ts';
import { FairQueue, QueueFull, type Turn } from './fair-queue.ts';

/** Length in characters. No rules of composition: they make passwords worse (NIST SP 800-63B, 3.1.1.2). */
export const PASSWORD_MIN_LENGTH = 12;
export const PASSWORD_MAX_LENGTH = 256;

/**
 * Argon2id (the library's default variant) with 19 MiB, two passes, one lane: the first recommendation of the OWASP Password
 * Storage Cheat Sheet, https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html#argon2id
 */
const MEMORY_KIB = 19_456;
const PASSES = 2;
const LANES = 1;
const SALT_BYTES = 16;
const DIGEST_BYTES = 32;

/** Each computation holds one of the four threads that DNS and signature checks use as well, so two at a time. */
const MAX_RUNNING = 2;
const MAX_WAITING = 64;
const MAX_WAITING_PER_SHARE = 16;
const RETRY_AFTER_BUSY_S = 2;

/** Hashes and checks passwords, a bounded number at a time; clients and tenants in turn. */
export class Passwords {
  /** Checking against it takes the same time as against a real hash, and never succeeds. */
  readonly #nobodysHash = unusableHash();
  readonly #queue = new FairQueue({
    maxRunning: MAX_RUNNING,
    maxWaiting: MAX_WAITING,
    maxWaitingPerShare: MAX_WAITING_PER_SHARE,
  });

  /**
   * The PHC string to store.
   * @throws UNAVAILABLE when too many computations wait already
   */
  async hash(turn: Turn, password: string): Promise<string> {
    return this.#inTurn(turn, () =>
      hash(normalised(password), {
        memoryCost: MEMORY_KIB,
        timeCost: PASSES,
        parallelism: LANES,
        outputLen: DIGEST_BYTES,
      }),
    );
  }

  /**
   * Whether the password belongs to the stored hash. Without a hash (no such user) the answer is false after the same work, so
   * that the time does not tell whether an e-mail is known.
   * @throws UNAVAILABLE when too many computations wait already
   */
  async verify(turn: Turn, storedHash: string | undefined, password: string): Promise<boolean> {
    return this.#inTurn(turn, () => verify(storedHash ?? this.#nobodysHash, normalised(password)));
  }

  async #inTurn<T>(turn: Turn, compute: () => Promise<T>): Promise<T> {
    try {
      return await this.#queue.run(turn, compute);
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
      throw serviceUnavailable({
        detail: 'Too many passwords are being checked.',
        retryAfterSeconds: RETRY_AFTER_BUSY_S,
        cause: error,
      });
    }
  }
}

/** What is stored for a user who has no password any more: a hash with the parameters of a real one, of nothing. */
export function unusableHash(): string {
  return [
    '$argon2id$v=19',
    `m=${MEMORY_KIB},t=${PASSES},p=${LANES}`,
    unpaddedBase64(randomBytes(SALT_BYTES)),
    unpaddedBase64(randomBytes(DIGEST_BYTES)),
  ].join('$');
}

/** One spelling for what keyboards may send as composed or decomposed characters (NIST SP 800-63B asks for NFKC or NFKD). */
function normalised(password: string): string {
  return password.normalize('NFKC');
}

function unpaddedBase64(bytes: Buffer): string {
  return bytes.toString('base64').replaceAll('=', '');
}
