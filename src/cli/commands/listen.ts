import { Command } from 'commander';
import { environmentName, loadConfig } from '../../config/index.ts';
import { type ShownRequest, type SimulatedReceiver, startSimulator } from '../../simulator/index.ts';
import { sleep } from '../../shared/abort.ts';
import type { ApiClient } from '../api-client.ts';
import { type ClientOptions, openClient, withClientOptions } from '../client-options.ts';

interface ListenOptions extends ClientOptions {
  readonly port?: string;
  readonly publicUrl?: string;
}

const LOOK_EVERY_MS = 100;

export function listenCommand(): Command {
  const command = new Command('listen')
    .description(
      'Receive events here: makes an endpoint for the time being, prints each delivery and whether its signature holds',
    )
    .argument('[patterns...]', 'event types or prefixes like order.*', ['*'])
    .option('--port <port>', `port to listen on (${environmentName('client.listenPort')})`)
    .option(
      '--public-url <url>',
      'how RelayOps reaches this port, when not by loopback (which it must allow: delivery.allowAddresses)',
    );
  return withClientOptions(command).action(async (patterns: string[], options: ListenOptions) => {
    const client = await openClient(options);
    const port = Number(options.port ?? loadConfig(process.env)['client.listenPort']);
    const simulator = await startSimulator({ port });
    try {
      await listen(client, simulator.receiver('listen'), patterns, options);
    } finally {
      // Its open socket would keep this process alive.
      await simulator.close();
    }
  });
}

/** Prints what comes until Ctrl-C, to an endpoint that lives as long. */
async function listen(
  client: ApiClient,
  receiver: SimulatedReceiver,
  patterns: readonly string[],
  options: ListenOptions,
): Promise<void> {
  const url = options.publicUrl ?? receiver.url;
  const subscriptions = patterns.map((pattern) => ({ pattern }));
  const { endpoint, secret } = await client.call<{ endpoint: { endpointId: string }; secret: string }>(
    'POST',
    '/v1/endpoints',
    { url, name: 'listen', subscriptions },
  );
  receiver.configure({ secrets: [secret] });
  process.stderr.write(`Listening at ${receiver.url} as endpoint ${endpoint.endpointId}. Ctrl-C ends it.\n`);
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  process.once('SIGTERM', () => controller.abort());
  try {
    let after: number | undefined;
    while (!controller.signal.aborted) {
      for (const request of receiver.requests(after === undefined ? {} : { after })) {
        after = request.seq;
        process.stdout.write(options.json ? JSON.stringify(request) + '\n' : describe(request));
      }
      await sleep(LOOK_EVERY_MS, controller.signal);
    }
  } finally {
    await client.call('DELETE', `/v1/endpoints/${endpoint.endpointId}`);
  }
}

function describe(request: ShownRequest): string {
  const type = String(request.headers['x-relayops-event-type'] ?? '?');
  const attempt = String(request.headers['x-relayops-attempt'] ?? '?');
  return `${request.at}  ${type}  attempt ${attempt}  signature ${request.signature}\n${request.body}\n\n`;
}
