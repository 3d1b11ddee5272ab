import { Command } from 'commander';
import { sleep } from '../../shared/abort.ts';
import type { ApiClient } from '../api-client.ts';
import { type ClientOptions, openClient, withClientOptions } from '../client-options.ts';

interface TailOptions extends ClientOptions {
  readonly state?: string;
  readonly endpoint?: string;
  readonly interval: string;
  readonly once?: boolean;
}

interface DeliveryItem {
  readonly deliveryId: string;
  readonly eventType: string;
  readonly endpointId: string;
  readonly state: string;
  readonly reason: string | null;
  readonly createdAt: string;
}

/** Deliveries remembered with the state they were last shown in; more are shown again, which is better than missing a change. */
const REMEMBERED = 10_000;
const PAGE = 200;

export function tailCommand(): Command {
  const command = new Command('tail')
    .description('Follow deliveries: a line when one appears and when its state changes')
    .option('--state <state>', 'only this state')
    .option('--endpoint <id>', 'only this endpoint')
    .option('--interval <ms>', 'pause between looks', '1000')
    .option('--once', 'print what is there and end');
  return withClientOptions(command).action(async (options: TailOptions) => {
    const client = await openClient(options);
    const controller = new AbortController();
    process.once('SIGINT', () => controller.abort());
    process.once('SIGTERM', () => controller.abort());
    const shown = new Map<string, string>();
    while (!controller.signal.aborted) {
      for (const item of (await page(client, options)).reverse()) show(item, shown, options);
      if (options.once) return;
      await sleep(Number(options.interval), controller.signal);
    }
  });
}

async function page(client: ApiClient, options: TailOptions): Promise<DeliveryItem[]> {
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (options.state) query.set('state', options.state);
  if (options.endpoint) query.set('endpointId', options.endpoint);
  return (await client.call<{ data: DeliveryItem[] }>('GET', `/v1/deliveries?${query.toString()}`)).data;
}

function show(item: DeliveryItem, shown: Map<string, string>, options: TailOptions): void {
  if (shown.get(item.deliveryId) === item.state) return;
  shown.delete(item.deliveryId);
  shown.set(item.deliveryId, item.state);
  if (shown.size > REMEMBERED) for (const oldest of shown.keys()) return void shown.delete(oldest);
  const line = `${item.createdAt}  ${item.state.padEnd(11)}  ${item.eventType}  ${item.deliveryId}  → ${item.endpointId}${item.reason ? `  (${item.reason})` : ''}`;
  process.stdout.write((options.json ? JSON.stringify(item) : line) + '\n');
}
