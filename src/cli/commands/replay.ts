import { Command } from 'commander';
import { sleep } from '../../shared/abort.ts';
import type { ApiClient } from '../api-client.ts';
import { type ClientOptions, openClient, withClientOptions } from '../client-options.ts';
import { emit } from '../output.ts';
import { startProgress } from '../progress.ts';

interface ReplayOptions extends ClientOptions {
  readonly endpoint?: string;
  readonly type?: string;
  readonly state?: string[];
  readonly from?: string;
  readonly to?: string;
  readonly dryRun?: boolean;
}

interface Job {
  readonly jobId: string;
  readonly state: string;
  readonly total: number;
  readonly replayed: number;
}

const LOOK_EVERY_MS = 300;

export function replayCommand(): Command {
  const command = new Command('replay')
    .description('Send failed or dead deliveries again: one by its ID, or many by a filter')
    .argument('[deliveryId]', 'one delivery')
    .option('--endpoint <id>', 'all of an endpoint')
    .option('--type <type>', 'all of an event type')
    .option('--state <state...>', 'failed, dead, cancelled (default: failed and dead)')
    .option('--from <time>', 'events accepted at or after')
    .option('--to <time>', 'events accepted before')
    .option('--dry-run', 'only count');
  return withClientOptions(command).action(async (deliveryId: string | undefined, options: ReplayOptions) => {
    const client = await openClient(options);
    if (deliveryId !== undefined) {
      const delivery = await client.call<{ state: string }>(
        'POST',
        `/v1/deliveries/${encodeURIComponent(deliveryId)}/replay`,
      );
      return emit(options, delivery, `${deliveryId} is ${delivery.state}.`);
    }
    const body = {
      ...(options.endpoint ? { endpointId: options.endpoint } : {}),
      ...(options.type ? { eventType: options.type } : {}),
      ...(options.state ? { states: options.state } : {}),
      ...(options.from ? { from: options.from } : {}),
      ...(options.to ? { to: options.to } : {}),
    };
    if (options.dryRun) {
      const counted = await client.call<{ count: number; exact: boolean }>('POST', '/v1/replays', {
        ...body,
        dryRun: true,
      });
      return emit(
        options,
        counted,
        `${counted.exact ? '' : 'at least '}${counted.count} deliveries would be sent again.`,
      );
    }
    const job = await follow(client, await client.call<Job>('POST', '/v1/replays', body));
    emit(
      options,
      job,
      `${job.state}: ${job.replayed} of ${job.total} deliveries are pending again (job ${job.jobId}).`,
    );
  });
}

async function follow(client: ApiClient, started: Job): Promise<Job> {
  const progress = startProgress('replay', started.total);
  let job = started;
  try {
    while (job.state === 'running') {
      await sleep(LOOK_EVERY_MS);
      job = await client.call<Job>('GET', `/v1/replays/${job.jobId}`);
      progress.update(job.replayed);
    }
  } finally {
    progress.stop();
  }
  return job;
}
