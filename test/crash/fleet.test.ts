import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { Fleet } from './fleet.ts';
import { brokerFaults } from './fleet-broker.ts';
import { limitFaults } from './fleet-limits.ts';
import { outages } from './fleet-outages.ts';
import { processFaults } from './fleet-processes.ts';

/** One fleet for all: RabbitMQ alone takes six seconds to start. Each case finds it whole, whatever the one before did to it. */
describe.skipIf(!inject('hasServices'))('a fleet of processes on PostgreSQL, RabbitMQ and Redis', () => {
  let fleet: Fleet;
  beforeAll(async () => {
    fleet = await Fleet.open();
  });
  beforeEach(() => fleet.mend());
  afterAll(() => fleet.close());

  describe('processes', () => processFaults(() => fleet));
  describe('the broker', () => brokerFaults(() => fleet));
  describe('limits', () => limitFaults(() => fleet));
  describe('outages', () => outages(() => fleet));

  it('ends with exit code 0 after all that, and leaves no message behind', async () => {
    expect(await fleet.stop()).toBe(0);
  });
});
