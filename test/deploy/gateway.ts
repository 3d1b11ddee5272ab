import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { until } from '../support/until.ts';
import type { FoundTool } from './debian-tool.ts';
import { read } from './files.ts';

/** deploy/haproxy.cfg as it is shipped, run by a real HAProxy in front of one API process on this machine. */
export class Gateway {
  readonly port: number;
  readonly #process: ChildProcess;
  readonly #folder: string;
  /** What HAProxy said. */
  readonly #log: string[];

  private constructor(port: number, process: ChildProcess, folder: string, log: string[]) {
    this.port = port;
    this.#process = process;
    this.#folder = folder;
    this.#log = log;
  }

  /**
   * @param api URL of the API process
   * @param admin URL of its probes
   */
  static async start({ file, libraries }: FoundTool, api: string, admin: string): Promise<Gateway> {
    const port = await freePort();
    const folder = await mkdtemp(path.join(os.tmpdir(), 'relayops-gateway-'));
    const config = path.join(folder, 'haproxy.cfg');
    await writeFile(config, here(await read('deploy/haproxy.cfg'), port, api, admin));
    const env = { ...process.env, LD_LIBRARY_PATH: libraries.join(':') };
    const child = spawn(file, ['-f', config, '-db'], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    const log: string[] = [];
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => void log.push(text));
    const gateway = new Gateway(port, child, folder, log);
    try {
      await gateway.#untilReady();
    } catch (error) {
      await gateway.stop();
      throw error;
    }
    return gateway;
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode === null) {
      this.#process.kill('SIGKILL');
      await once(this.#process, 'exit');
    }
    await rm(this.#folder, { recursive: true, force: true });
  }

  async #untilReady(): Promise<void> {
    const look = async (): Promise<string> => {
      if (this.#process.exitCode !== null) throw new Error(`HAProxy has ended:\n${this.#log.join('')}`);
      return fetch(`http://127.0.0.1:${this.port}/openapi.json`).then(
        ({ status }) => String(status),
        (error: unknown) => String(error),
      );
    };
    await until('the gateway passes requests on', look, (seen) => seen === '200', 20_000);
  }
}

/** Only where it listens and where the API is; Docker's name server is not here. @throws Error when a line is not found */
function here(text: string, port: number, api: string, admin: string): string {
  let config = text;
  const replace = (line: RegExp, by: string): void => {
    if (!line.test(config)) throw new Error(`haproxy.cfg: no line like ${line.source}`);
    config = config.replace(line, by);
  };
  replace(/^resolvers docker\n(?: .*\n)+/m, '');
  replace(/^( *)bind :8080$/m, `$1bind 127.0.0.1:${port}`);
  replace(/ resolvers docker init-addr none/, '');
  replace(/check port 8090/, `check port ${new URL(admin).port}`);
  replace(/^( *)server-template api .*$/m, `$1server api ${new URL(api).host}`);
  return config;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

export interface RawAnswer {
  readonly status: number;
  readonly text: string;
}

/** One request from a source address of its own: every 127.x.y.z is this machine's. Headers may come twice. */
export async function requestFrom(
  address: string,
  port: number,
  method: string,
  target: string,
  headers: readonly (readonly [name: string, value: string])[] = [],
  body = '',
): Promise<RawAnswer> {
  const socket = connect({ host: '127.0.0.1', port, localAddress: address });
  const lines = [
    `${method} ${target} HTTP/1.1`,
    'host: gateway',
    'connection: close',
    ...(body === '' ? [] : ['content-type: application/json', `content-length: ${Buffer.byteLength(body)}`]),
    ...headers.map(([name, value]) => `${name}: ${value}`),
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`);
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return { status: Number(/^HTTP\/1\.1 (\d+)/.exec(text)?.[1]), text };
}
