import type { Command } from 'commander';
import { EmbeddedHome } from '../app/embedded-home.ts';
import { environmentName, loadConfig } from '../config/index.ts';
import { ApiClient } from './api-client.ts';

export interface ClientOptions {
  readonly url?: string;
  readonly apiKey?: string;
  readonly json?: boolean;
}

export function withClientOptions(command: Command): Command {
  return command
    .option('--url <url>', `the API (${environmentName('client.url')})`)
    .option(
      '--api-key <key>',
      `API key (${environmentName('client.apiKey')}; default: the demo key of the embedded data)`,
    )
    .option('--json', 'machine-readable output');
}

/** A client for the API that the options, the environment or the embedded installation name. */
export async function openClient(options: ClientOptions): Promise<ApiClient> {
  const config = loadConfig(process.env);
  const apiKey = options.apiKey ?? (config['client.apiKey'] || (await demoKey(config['database.dataDir'])));
  if (apiKey === undefined) {
    throw new Error(
      `no API key: give --api-key or ${environmentName('client.apiKey')}, or run \`relayops start\` once for the demo key`,
    );
  }
  return new ApiClient(options.url ?? config['client.url'], apiKey);
}

async function demoKey(dataDir: string): Promise<string | undefined> {
  return (await new EmbeddedHome(dataDir).known())?.demo?.apiKey;
}
