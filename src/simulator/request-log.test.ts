import { describe, expect, it } from 'vitest';
import { RequestLog } from './request-log.ts';

const request = { atMs: 0, method: 'POST', path: '/r/a', headers: {}, sha256: '', signature: 'ok' };

describe('RequestLog', () => {
  it('keeps the last requests, and pages over them by sequence number', () => {
    const log = new RequestLog(3);
    expect(log.last).toBeUndefined();
    for (let n = 0; n < 5; n += 1) log.add(request, Buffer.from(`${n}`));
    expect(log.page(-1, 10).map(({ seq, body }) => [seq, body])).toEqual([
      [2, '2'],
      [3, '3'],
      [4, '4'],
    ]);
    expect(log.page(2, 1).map(({ seq }) => seq)).toEqual([3]);
    expect(log.page(4, 10)).toEqual([]);
    expect(log.last?.seq).toBe(4);
  });

  it('shows text as text, anything else as base64, and long bodies cut', () => {
    const log = new RequestLog(3);
    log.add(request, Buffer.from('{"ü":1}'));
    log.add(request, Buffer.from([0xff, 0xfe]));
    log.add(request, Buffer.alloc(300_000, 'x'));
    expect(log.page(-1, 3)).toMatchObject([
      { body: '{"ü":1}', bodyEncoding: 'utf8', bodyBytes: 8, bodyCut: false },
      { body: '//4=', bodyEncoding: 'base64', bodyBytes: 2, bodyCut: false },
      { body: 'x'.repeat(262_144), bodyBytes: 300_000, bodyCut: true },
    ]);
  });

  it('lets older requests go when the bodies become too many bytes', () => {
    const log = new RequestLog(1_000);
    for (let n = 0; n < 300; n += 1) log.add(request, Buffer.alloc(262_144));
    expect(log.page(-1, 1_000)).toHaveLength(256);
    expect(log.page(-1, 1)[0]?.seq).toBe(44);
  });

  it('shows how a request ended once that is known', () => {
    const log = new RequestLog(1);
    const logged = log.add(request, Buffer.alloc(0));
    expect(log.last?.answered).toBeNull();
    logged.answered = 200;
    expect(log.last?.answered).toBe(200);
  });
});
