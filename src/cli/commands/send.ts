import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { Command } from 'commander';
import { type ClientOptions, openClient, withClientOptions } from '../client-options.ts';
import { emit } from '../output.ts';

interface SendOptions extends ClientOptions {
  readonly data: string;
  readonly key?: string;
}

export function sendCommand(): Command {
  const command = new Command('send')
    .description('Send an event')
    .argument('<type>', 'event type, e.g. order.paid')
    .option('-d, --data <json>', 'payload as JSON, @file, or - for standard input', '{}')
    .option('-k, --key <key>', 'idempotency key');
  return withClientOptions(command).action(async (type: string, options: SendOptions) => {
    const client = await openClient(options);
    const payload = await readData(options.data);
    // The payload goes in as the text it is: parsing it here would round its long numbers.
    const body = `{"type":${JSON.stringify(type)},"payload":${payload}}`;
    const headers = options.key === undefined ? {} : { 'idempotency-key': options.key };
    const answer = await client.call<{ eventId: string; deliveries: number | null }>(
      'POST',
      '/v1/events',
      body,
      headers,
    );
    emit(options, answer, `Accepted ${answer.eventId}: ${answer.deliveries ?? '?'} deliveries.`);
  });
}

async function readData(data: string): Promise<string> {
  if (data === '-') return text(process.stdin);
  return data.startsWith('@') ? readFile(data.slice(1), 'utf8') : data;
}
