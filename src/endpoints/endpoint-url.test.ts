import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { Endpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Refusal } from './endpoints.fixture.ts';

let test: TestDatabase;
let app: EndpointsApp;

beforeAll(async () => {
  test = await testDatabase();
  app = await EndpointsApp.start(test.database);
});
afterAll(async () => {
  await app.close();
  await test.close();
});

const FORBIDDEN = [
  'http://127.0.0.1/',
  'http://127.1/',
  'http://2130706433/',
  'http://0x7f000001/',
  'http://0x7f.1/',
  'http://0177.0.0.1/',
  'http://127.0.0.1./',
  'http://%31%32%37.0.0.1/',
  'http://①②⑦.⓪.⓪.①/',
  'http://[::1]/',
  'http://[::]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[0:0:0:0:0:ffff:7f00:1]/',
  'http://[64:ff9b::7f00:1]/',
  'http://[2002:7f00:1::]/',
  'http://[fe80::1]/',
  'http://[fd00::1]/',
  'http://[ff02::1]/',
  'http://0.0.0.0/',
  'http://10.0.0.1/',
  'http://172.16.0.1/',
  'http://192.168.1.1/',
  'http://100.64.0.1/',
  'http://169.254.169.254/latest/meta-data',
  'http://224.0.0.1/',
  'http://240.0.0.1/',
  'http://255.255.255.255/',
  'http://localhost:8080/',
  'http://LOCALHOST/',
  'http://a.localhost/',
  'http://localhost./',
  'http://metadata.google.internal/',
  'http://printer.local/',
  'https://user:password@example.com/',
  'https://example.com/#fragment',
  'https://exa mple.com/',
  'https:\\\\example.com\\',
  'https://example.com/\r\nHost: x',
  'ftp://example.com/',
  'file:///etc/passwd',
  'javascript:alert(1)',
  '//example.com/',
  'example.com',
  'https://',
  '',
  `https://example.com/${'x'.repeat(2_048)}`,
];

describe('an URL', () => {
  it.each(FORBIDDEN)('that is %s is refused, at creation and at a change', async (url) => {
    const { id, endpoint } = await app.make();
    const answers = [
      await app.call<Refusal>('POST', '', { url }),
      await app.call<Refusal>('PATCH', `/${id}`, { url, name: 'changed' }),
    ];
    for (const { status, body } of answers) {
      expect({ status, code: body.code }).toEqual({ status: 400, code: 'ENDPOINT_URL_REFUSED' });
      expect(body.errors).toEqual([
        {
          field: 'url',
          reason: expect.stringMatching(/\S/) as string,
          fix: expect.stringMatching(/\S/) as string,
        },
      ]);
    }
    expect((await app.call<Endpoint>('GET', `/${id}`)).body).toEqual(endpoint);
  });

  it('that this installation allows passes, on that port alone', async () => {
    const lenient = await EndpointsApp.start(test.database, {
      'delivery.allowAddresses': ['127.0.0.1/32:9000'],
    });
    const { id } = await lenient.make({ url: 'http://127.0.0.1:9000/x' });
    const change = (url: string) => lenient.call<Refusal>('PATCH', `/${id}`, { url });
    expect((await change('http://localhost:9000/')).status).toBe(200);
    expect((await change('http://127.0.0.1:9001/')).body.code).toBe('ENDPOINT_URL_REFUSED');
    await lenient.close();
  });

  it('is judged only when it is given, so that other settings can be changed after the rules have', async () => {
    const { id } = await app.make();
    await app.tenants.sql(
      "UPDATE relayops.webhook_endpoints SET url = 'http://10.0.0.1/' WHERE endpoint_id = $1",
      id,
    );
    expect((await app.call('PATCH', `/${id}`, { name: 'still mine' })).status).toBe(200);
  });
});
