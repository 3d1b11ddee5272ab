/**
 * Where the time comes from, as milliseconds since the epoch. Deadlines in the database use the database's own clock; this
 * one is for IDs, local timers and measurements, and is passed in so that tests can hold it.
 */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** Milliseconds since the process began, which no one can set: for deadlines and buckets. */
export const monotonicClock: Clock = { now: () => performance.now() };
