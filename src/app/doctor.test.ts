import { expect, it } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import { describeRabbitMq, describeRedis } from '../../test/support/services.ts';
import { environmentOf, type Config } from '../config/index.ts';
import { runChecks } from './doctor.ts';

const findingsWith = async (config: Partial<Config>) => {
  const test = await testDatabase();
  try {
    const findings = await runChecks(
      environmentOf({
        'database.url': test.url,
        'auth.jwtSecret': 'a-secret-of-tests-that-is-long-enough',
        'secrets.key': Buffer.alloc(32, 7).toString('base64'),
        ...config,
      }),
    );
    return Object.fromEntries(findings.map((finding) => [finding.check, finding]));
  } finally {
    await test.close();
  }
};

it('looks at the database, and at nothing that is not used', async () => {
  const findings = await findingsWith({});
  expect(findings).toMatchObject({
    configuration: { status: 'ok' },
    schema: { status: 'ok' },
    'partitions ahead': { status: 'ok' },
  });
  expect(findings).not.toHaveProperty('rabbitmq');
  expect(findings).not.toHaveProperty('redis');
});

it('says what to do when a broker or a cache cannot be reached, and shows no password', async () => {
  const findings = await findingsWith({
    transport: 'rabbitmq',
    'rabbitmq.url': 'amqp://relay:hunter2@127.0.0.1:1',
    coordination: 'redis',
    'redis.url': 'redis://:hunter2@127.0.0.1:1',
  });
  expect(findings).toMatchObject({ rabbitmq: { status: 'failed' }, redis: { status: 'failed' } });
  expect(findings.rabbitmq!.remedy).toContain('rabbitmq.url');
  expect(findings.redis!.remedy).toContain('redis.url');
  expect(JSON.stringify(findings)).not.toContain('hunter2');
});

describeRabbitMq('with RabbitMQ', (url) => {
  it('says its version', async () => {
    const { rabbitmq } = await findingsWith({ transport: 'rabbitmq', 'rabbitmq.url': url });
    expect(rabbitmq).toMatchObject({ status: 'ok', detail: expect.stringMatching(/^RabbitMQ \d/) as string });
  });
});

describeRedis('with Redis', (url) => {
  it('says its version, and notices a wrong kind', async () => {
    const redis = { coordination: 'redis', 'redis.url': url } as const;
    expect((await findingsWith(redis)).redis).toMatchObject({
      status: 'ok',
      detail: expect.stringMatching(/^Redis \d.*noeviction/) as string,
    });
    expect((await findingsWith({ ...redis, 'redis.cluster': true })).redis).toMatchObject({
      status: 'failed',
      remedy: 'Set redis.cluster to false.',
    });
  });
});
