import { expect, it } from 'vitest';
import type { EndpointId } from '../../shared/ids.ts';
import { LocalLimits } from './local-limits.ts';

const LEASE_MS = 3_000;
const ENDPOINT = '01890000-0000-7000-8000-000000000001' as EndpointId;

it('keeps to the share of as many processes as there were, when Redis comes back after a long time and knows of few', () => {
  let nowMs = 0;
  const local = new LocalLimits({ now: () => nowMs }, LEASE_MS);
  const share = (): number =>
    local.acquire({ endpointId: ENDPOINT, wanted: 10, limits: { maxConcurrency: 10, rate: null } }, 0).count;
  local.noteReturn();
  local.noteProcesses(5);
  nowMs += 10 * LEASE_MS;
  local.noteReturn();
  local.noteProcesses(1);
  expect(share()).toBe(2);
  nowMs += LEASE_MS;
  local.noteProcesses(2);
  expect(share()).toBe(5);
});
