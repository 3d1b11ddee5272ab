import { coordinationConformance } from '../conformance.ts';
import { MemoryCoordination } from './index.ts';

coordinationConformance('memory', async () => {
  let now = 1_000_000;
  const coordination = new MemoryCoordination({ now: () => now });
  return {
    coordination,
    advance: async (ms) => void (now += ms),
    close: () => coordination.close(),
  };
});
