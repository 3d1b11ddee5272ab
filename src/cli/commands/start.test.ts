import { expect, it } from 'vitest';
import { loadConfig } from '../../config/index.ts';
import { parseAllowList } from '../../platform/http/address-guard.ts';
import { allowingLoopback } from './start.ts';

it('lets deliveries through to the loopback ports that are known, and to no other', () => {
  const config = allowingLoopback(loadConfig({}, { 'delivery.allowAddresses': ['10.0.0.0/8'] }), [8081, 0]);
  expect(config['delivery.allowAddresses']).toEqual(['10.0.0.0/8', '127.0.0.1/32:8081']);
  expect(() => parseAllowList(config['delivery.allowAddresses'])).not.toThrow();
});
