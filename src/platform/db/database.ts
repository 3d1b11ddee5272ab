import { Socket } from 'node:net';
import pg from 'pg';
import { within } from '../../shared/abort.ts';

/** bigint columns: our counts stay below 2^53, and lease tokens are passed back as the text they came as. */
const INT8_OID = 20;

export interface DatabaseOptions {
  /** postgres:// URL. */
  readonly url: string;
  /** Upper bound of connections for requests that people wait for. */
  readonly poolSize: number;
  /** Upper bound of connections for group commits. */
  readonly acceptancePoolSize: number;
  /** Upper bound of connections for claims and results. */
  readonly deliveryPoolSize: number;
  readonly connectTimeoutMs: number;
  /** Server-side limit of one statement on the request pool. */
  readonly statementTimeoutMs: number;
  /** How long the server may say nothing while a statement of the other pools is open. Default: 30 s. */
  readonly silenceMs?: number;
  readonly applicationName: string;
  /** Told about errors of idle connections, which nobody awaits. */
  readonly onIdleError: (error: Error) => void;
}

/** Something that runs statements: a pool, or the one connection of a transaction. */
export interface Queryable {
  query<Row extends pg.QueryResultRow>(statement: Statement): Promise<pg.QueryResult<Row>>;
}

/** A statement with its values; with a name it is prepared once a connection. */
export interface Statement {
  readonly name?: string;
  readonly text: string;
  readonly values?: unknown[];
}

/** The connection of an open transaction. Only `Database.transaction` makes one. */
export interface Transaction extends Queryable {
  readonly transaction: true;
}

/** Nothing that runs on the hot pools ever wants to read a table from end to end. */
const INDEX_ONLY = '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off';

/**
 * Three pools on one database, because a plan must fit its statement (docs/adr/0006-plans-that-do-not-flip.md):
 * - `requests`: PostgreSQL's defaults and a statement time-out, for look-ups, lists and configuration.
 * - `acceptance`: the group commit. It joins nothing but its own lists, by hash.
 * - `delivery`: claims, results and look-ups by key: nested loops over indexes.
 * On the last two every alternative is switched off, so that a generic plan, even one made while the tables were empty, cannot be another
 * one; each statement saves half a millisecond or more of planning.
 */
export class Database {
  readonly requests: pg.Pool;
  readonly acceptance: pg.Pool;
  readonly delivery: pg.Pool;
  readonly url: string;
  readonly #applicationName: string;
  readonly #sockets = new Set<Socket>();
  #closing = false;

  constructor(options: DatabaseOptions) {
    this.url = options.url;
    this.#applicationName = options.applicationName;
    const common = {
      connectionString: options.url,
      connectionTimeoutMillis: options.connectTimeoutMs,
      application_name: options.applicationName,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
      stream: () => this.#newSocket(),
    };
    const silenceMs = options.silenceMs ?? SILENCE_MS;
    const hot = {
      ...common,
      // Shorter than the silence, so that a silent connection is one with an open statement.
      idleTimeoutMillis: (silenceMs * 2) / 3,
      stream: () => this.#newSocket(silenceMs),
    };
    this.requests = new pg.Pool({
      ...common,
      max: options.poolSize,
      options: `-c timezone=UTC -c statement_timeout=${options.statementTimeoutMs}`,
    });
    this.acceptance = new pg.Pool({
      ...hot,
      max: options.acceptancePoolSize,
      options: `-c timezone=UTC -c plan_cache_mode=force_generic_plan -c enable_nestloop=off -c enable_mergejoin=off ${INDEX_ONLY}`,
    });
    this.delivery = new pg.Pool({
      ...hot,
      max: options.deliveryPoolSize,
      options: `-c timezone=UTC -c plan_cache_mode=force_generic_plan -c enable_hashjoin=off -c enable_mergejoin=off -c enable_memoize=off ${INDEX_ONLY}`,
    });
    for (const pool of this.#pools()) {
      // While closing, the server may end sessions before their sockets are gone: that is no error of anybody.
      pool.on('error', (error) => void (this.#closing || options.onIdleError(error)));
      pool.on('connect', (client) => {
        client.setTypeParser(INT8_OID, Number);
        // The pool does not listen to a client that is lent out (a transaction): when its connection is lost, its next statement fails,
        // and the pool drops it. Without a listener the lost connection would end the process.
        client.on('error', ignored);
      });
    }
  }

  /** Runs `work` in one transaction on the given pool; rolls back and re-throws when it throws. */
  async transaction<T>(work: (tx: Transaction) => Promise<T>, pool: pg.Pool = this.requests): Promise<T> {
    const client = await pool.connect();
    let broken: Error | undefined;
    try {
      await client.query('BEGIN');
      const result = await work(Object.assign(client, { transaction: true as const }));
      await client.query('COMMIT');
      return result;
    } catch (error) {
      // When even the rollback fails the connection is gone, and the server has rolled back by itself.
      await client.query('ROLLBACK').catch((rollbackError: unknown) => {
        broken = rollbackError instanceof Error ? rollbackError : new Error(String(rollbackError));
      });
      throw error;
    } finally {
      client.release(broken);
    }
  }

  /** A connection of its own, outside the pools (LISTEN). The caller connects and ends it. */
  dedicatedClient(): pg.Client {
    return new pg.Client({
      connectionString: this.url,
      application_name: `${this.#applicationName}:listen`,
      connectionTimeoutMillis: LISTEN_CONNECT_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS,
      stream: () => this.#newSocket(),
    });
  }

  /** Ends all connections in order. What a server does not answer is cut off: it would keep the process from ending. */
  async close(): Promise<void> {
    this.#closing = true;
    await within(CLOSE_MS, Promise.all(this.#pools().map((pool) => pool.end())));
    for (const socket of this.#sockets) socket.destroy();
  }

  /** @param silenceMs a server that says nothing for this long is given up: what waits for it fails */
  #newSocket(silenceMs?: number): Socket {
    const socket = new Socket();
    if (silenceMs !== undefined)
      socket.setTimeout(silenceMs, () => socket.destroy(new Error(`Query read timeout (${silenceMs} ms)`)));
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    return socket;
  }

  #pools(): pg.Pool[] {
    return [this.requests, this.acceptance, this.delivery];
  }
}

/**
 * A server that vanished without a word (failover, cut network) must not hold acceptance and claims for longer. The driver's own time-out is a timer for
 * each statement, and what those keep alive costs 10 KB of old heap a statement: scavenges of 5 to 15 ms.
 */
const SILENCE_MS = 30_000;
const KEEP_ALIVE_AFTER_MS = 10_000;
const LISTEN_CONNECT_TIMEOUT_MS = 5_000;
/** How long connections may take to end. */
const CLOSE_MS = 1_500;

function ignored(): void {
  // See the caller.
}

/** Connection, rollback, resources (full disk, memory, connections), operator's intervention, system errors; and busy locks, read-only. */
const TRANSIENT_SQLSTATE = /^(08|40|53|57|58)|^(55P03|25006)$/;

/**
 * True for failures that say "the database is away or busy, the same statement may work later": lost connections
 * (SQLSTATE class 08 and socket errors), shutdown and start-up (57P0x), serialization failures and deadlocks.
 */
export function isTransient(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const code = (error as { code?: unknown }).code;
  if (typeof code === 'string') {
    if (/^[0-9A-Z]{5}$/.test(code) && TRANSIENT_SQLSTATE.test(code)) return true;
    if (/^(ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ENOENT|EHOSTUNREACH)$/.test(code))
      return true;
  }
  return /Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Query read timeout/.test(
    error.message,
  );
}

/** The SQLSTATE of a server error, or undefined. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}
