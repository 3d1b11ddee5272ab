import { systemClock } from '../../shared/clock.ts';
import { transportConformance } from '../conformance.ts';
import { transportHarness } from '../transport.fixture.ts';
import { PostgresTransport } from './index.ts';

transportConformance('postgres', () =>
  transportHarness({
    config: {},
    hasMessages: false,
    open: async (site) => new PostgresTransport({ ...site, clock: systemClock }),
  }),
);
