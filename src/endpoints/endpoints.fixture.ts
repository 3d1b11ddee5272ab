import { FilteredEvent } from './filtered-event.ts';
import { type Config, loadConfig } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import { type Answer, type Member, TenantsApp } from '../tenants/tenants.fixture.ts';
import type { NewEndpoint } from './endpoint.schemas.ts';
import type { SecretRead } from './endpoints-deps.ts';
import {
  type DeliveryTarget,
  EndpointDirectory,
  EndpointsService,
  type Route,
  SecretBox,
  endpointRoutes,
} from './index.ts';
import { formatSecret } from './secret-box.ts';
import type { Subscription } from './subscription.schemas.ts';

export const URL_OK = 'https://hooks.example.com/in';
const SECRETS_KEY = Buffer.alloc(32, 7).toString('base64');
export const UNKNOWN_ID = '01890a5d-ac96-774b-bcce-b302099a8057';

export interface Refusal {
  readonly code: string;
  readonly errors: readonly { readonly field: string; readonly reason: string; readonly fix: string }[];
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** A signing secret of that many bytes, all the same. */
export function secretOf(bytes: number, fill = 1): string {
  return formatSecret(Buffer.alloc(bytes, fill));
}

type Parts = Pick<
  EndpointsApp,
  'tenants' | 'directory' | 'owner' | 'due' | 'read' | 'secretBox' | 'errors' | 'clock'
>;

/** The feature behind a real server without a socket, with one tenant that has signed up. */
export class EndpointsApp {
  readonly tenants: TenantsApp;
  readonly directory: EndpointDirectory;
  readonly owner: Member;
  /** Endpoints of which delivery was told that work may be due. */
  readonly due: EndpointId[];
  /** Signing secrets that somebody read. */
  readonly read: SecretRead[];
  readonly secretBox: SecretBox;
  /** What the directory reported. */
  readonly errors: unknown[];
  readonly clock: { ms: number };

  private constructor(parts: Parts) {
    this.tenants = parts.tenants;
    this.directory = parts.directory;
    this.owner = parts.owner;
    this.due = parts.due;
    this.read = parts.read;
    this.secretBox = parts.secretBox;
    this.errors = parts.errors;
    this.clock = parts.clock;
  }

  static async start(database: Database, overrides: Partial<Config> = {}): Promise<EndpointsApp> {
    const config = loadConfig({}, { 'secrets.key': SECRETS_KEY, ...overrides });
    const secretBox = new SecretBox(config['secrets.key']);
    const errors: unknown[] = [];
    const directory = new EndpointDirectory({
      database,
      config,
      secretBox,
      onError: (error) => errors.push(error),
    });
    const due: EndpointId[] = [];
    const clock = {
      ms: Date.now(),
      now(): number {
        return this.ms;
      },
    };
    const onWorkMayBeDue = (endpointId: EndpointId): void => void due.push(endpointId);
    const read: SecretRead[] = [];
    const onSecretRead = (one: SecretRead): void => void read.push(one);
    const service = new EndpointsService({
      database,
      config,
      clock,
      directory,
      secretBox,
      onSecretRead,
      onWorkMayBeDue,
    });
    const tenants = await TenantsApp.start(database, { addRoutes: (app) => endpointRoutes(app, service) });
    const owner = await tenants.signUp();
    return new EndpointsApp({ tenants, directory, owner, due, read, secretBox, errors, clock });
  }

  async close(): Promise<void> {
    await this.tenants.close();
  }

  /** As the owner, unless another token is given. */
  call<Body = Record<string, unknown>>(
    method: Method,
    path: string,
    body?: unknown,
    token = this.owner.token,
  ): Promise<Answer<Body>> {
    return this.tenants.call<Body>(method, `/v1/endpoints${path}`, { token, body });
  }

  /** A new endpoint; the test fails when it is refused. */
  async make(
    body: Record<string, unknown> = {},
    token = this.owner.token,
  ): Promise<NewEndpoint & { id: EndpointId }> {
    this.clock.ms += 1;
    const made = await this.call<NewEndpoint>('POST', '', { url: URL_OK, ...body }, token);
    if (made.status !== 201) throw new Error(made.text);
    return { ...made.body, id: made.body.endpoint.endpointId as EndpointId };
  }

  async subscribe(endpointId: string, pattern: string, filter: string | null = null): Promise<Subscription> {
    this.clock.ms += 1;
    const path = `/${endpointId}/subscriptions`;
    const made = await this.call<Subscription>('POST', path, { pattern, filter });
    if (made.status !== 201) throw new Error(made.text);
    return made.body;
  }

  /** As delivery sees the endpoint. Nothing is forgotten here: that is what the service has to do. */
  async target(id: EndpointId): Promise<DeliveryTarget> {
    const target = (await this.directory.targets([id])).get(id);
    if (target === undefined) throw new Error(`no endpoint ${id}`);
    return target;
  }

  /** Where the owner's event of this type goes, and the version of the routing that says so. */
  async routes(
    type: string,
    payload: unknown = null,
  ): Promise<{ version: number; routes: readonly Route[] }> {
    const table = await this.directory.routing(this.owner.tenant.tenantId as TenantId);
    return {
      version: table.version,
      routes: await table.route(
        type,
        new FilteredEvent({ id: UNKNOWN_ID, type }, Buffer.from(JSON.stringify(payload, plainNumber))),
        () => Promise.reject(new Error('no filter of these tests is dear')),
      ),
    };
  }

  async version(id: EndpointId): Promise<number> {
    const [row] = await this.tenants.sql(
      'SELECT version FROM relayops.webhook_endpoints WHERE endpoint_id = $1',
      id,
    );
    return row!['version'] as number;
  }
}

function plainNumber(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? Number(value) : value;
}
