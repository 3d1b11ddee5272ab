import { Command } from 'commander';
import { openDemoTenant } from '../../app/demo-tenant.ts';
import { type Installation, openInstallation } from '../../app/installation.ts';
import { type RelayProcess, startProcess } from '../../app/process.ts';
import { environmentName, keys, type Config } from '../../config/index.ts';
import { createLogger } from '../../platform/telemetry/logger.ts';
import { type Simulator, startSimulator } from '../../simulator/index.ts';
import { untilStopSignal } from '../stop-signal.ts';

interface StartOptions {
  readonly role?: Config['role'];
  readonly port?: string;
}

export function startCommand(): Command {
  return serveCommand(
    'start',
    'Serve. Without a database of your own: embedded PostgreSQL, simulator and a demo tenant, data kept',
    false,
  );
}

export function devCommand(): Command {
  return serveCommand('dev', 'As start, with simulator and demo tenant also on a database of your own', true);
}

function serveCommand(name: string, description: string, always: boolean): Command {
  return new Command(name)
    .description(description)
    .option('--role <role>', `one of ${keys.role.values.join(', ')} (${environmentName('role')})`)
    .option('--port <port>', `port of the API (${environmentName('http.port')})`)
    .action((options: StartOptions) => serve(options, always));
}

async function serve(options: StartOptions, demoAlways: boolean): Promise<void> {
  const embedded = !process.env[environmentName('database.url')];
  const withDemo = demoAlways || embedded;
  const overrides = {
    ...(options.role ? { role: options.role } : {}),
    ...(options.port ? { 'http.port': Number(options.port) } : {}),
  };
  const installation = await openInstallation(process.env, overrides);
  let simulator: Simulator | undefined;
  let relay: RelayProcess | undefined;
  try {
    if (withDemo) simulator = await startSimulator({ port: installation.config['simulator.port'] });
    const config = simulator ? allowing(installation.config, simulator.url) : installation.config;
    relay = await startProcess(config, createLogger(config['log.level'], { service: 'relayops' }));
    if (simulator) await welcome(relay, installation, simulator);
    else process.stdout.write(`RelayOps (${config.role}) is serving at ${relay.url}\n`);
    await untilStopSignal();
    process.stdout.write('Stopping: work in flight is finished first. Ctrl-C again ends at once.\n');
  } finally {
    await relay?.stop();
    await simulator?.close();
    await installation.close();
  }
}

/** The simulator listens on loopback, which the address guard refuses otherwise. Only its own port is let through. */
function allowing(config: Config, simulatorUrl: string): Config {
  return {
    ...config,
    'delivery.allowAddresses': [
      ...config['delivery.allowAddresses'],
      `127.0.0.1/32:${new URL(simulatorUrl).port}`,
      `127.0.0.1/32:${config['client.listenPort']}`,
    ],
  };
}

async function welcome(relay: RelayProcess, installation: Installation, simulator: Simulator): Promise<void> {
  const receiver = simulator.receiver('demo');
  const demo = await openDemoTenant(relay.runtime, relay.url, receiver.url, installation.home);
  receiver.configure({ secrets: [demo.endpointSecret] });
  process.stdout.write(
    [
      '',
      `  RelayOps     ${relay.url}`,
      `  API docs     ${relay.url}/docs`,
      `  API key      ${demo.apiKey}`,
      `  Data         ${installation.home?.dataDir ?? 'your database'}`,
      '',
      '  Send an event:',
      '',
      `curl -sS ${relay.url}/v1/events -H 'authorization: Bearer ${demo.apiKey}' -H 'content-type: application/json' -d '{"type":"order.paid","payload":{"order":1}}'`,
      '',
      '  See what the receiver got:',
      '',
      `curl -sS ${simulator.url}/receivers/demo`,
      '',
      '',
    ].join('\n'),
  );
}
