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
  readonly adminPort?: string;
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
    .option('--admin-port <port>', `port of probes and metrics (${environmentName('http.adminPort')})`)
    .action((options: StartOptions) => serve(options, always));
}

async function serve(options: StartOptions, demoAlways: boolean): Promise<void> {
  const embedded = !process.env[environmentName('database.url')];
  const overrides = {
    ...(options.role ? { role: options.role } : {}),
    ...(options.port ? { 'http.port': Number(options.port) } : {}),
    ...(options.adminPort ? { 'http.adminPort': Number(options.adminPort) } : {}),
  };
  // From the beginning: a signal during the start stops what has been started, as soon as it is.
  const stopSignal = untilStopSignal();
  const installation = await openInstallation(process.env, overrides);
  let simulator: Simulator | undefined;
  let relay: RelayProcess | undefined;
  try {
    const given = installation.config;
    const isDemo = demoAlways || embedded;
    // Only a process with an API can make the demo tenant; a worker beside it delivers to the simulator of that process.
    if (isDemo && given.role !== 'worker')
      simulator = await startSimulator({ port: given['simulator.port'] });
    const simulatorPort = simulator ? Number(new URL(simulator.url).port) : given['simulator.port'];
    const config = isDemo ? allowingLoopback(given, [simulatorPort, given['client.listenPort']]) : given;
    relay = await startProcess(config, createLogger(config['log.level'], { service: 'relayops' }));
    if (simulator) await welcome(relay, installation, simulator);
    else
      process.stdout.write(
        `RelayOps (${config.role}) is serving at ${relay.url}\nProbes and metrics are at ${relay.adminUrl}\n`,
      );
    await stopSignal;
    process.stdout.write('Stopping: work in flight is finished first. Ctrl-C again ends at once.\n');
  } finally {
    await relay?.stop();
    await simulator?.close();
    await installation.close();
  }
}

/**
 * The simulator and `listen` are on loopback, which the address guard refuses otherwise. Only their own ports are let through; one that is
 * chosen when it is opened (0) is not known here.
 */
export function allowingLoopback(config: Config, ports: readonly number[]): Config {
  const entries = ports.filter((port) => port !== 0).map((port) => `127.0.0.1/32:${port}`);
  return { ...config, 'delivery.allowAddresses': [...config['delivery.allowAddresses'], ...entries] };
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
      `  Metrics      ${relay.adminUrl}/metrics`,
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
