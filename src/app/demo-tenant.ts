import { createTenantWithKey } from './accounts.ts';
import type { EmbeddedHome } from './embedded-home.ts';
import type { Runtime } from './runtime.ts';

export interface DemoTenant {
  readonly apiKey: string;
  readonly endpointId: string;
  readonly endpointSecret: string;
}

/**
 * The tenant that a first start shows: an API key, and an endpoint that sends every event to the simulator. Made through the API as
 * a user would; kept for the next start.
 */
export async function openDemoTenant(
  runtime: Runtime,
  apiUrl: string,
  receiverUrl: string,
  home: EmbeddedHome | null,
): Promise<DemoTenant> {
  const secrets = await home?.secrets();
  const kept = secrets?.demo;
  if (kept && (await pointEndpoint(apiUrl, kept, receiverUrl))) return kept;
  const key = await createTenantWithKey(runtime, 'Demo', 'start');
  const made = await call<{ endpoint: { endpointId: string }; secret: string }>(
    apiUrl,
    key,
    'POST',
    '/v1/endpoints',
    {
      url: receiverUrl,
      name: 'simulator',
      subscriptions: [{ pattern: '*' }],
    },
  );
  const demo = { apiKey: key, endpointId: made.endpoint.endpointId, endpointSecret: made.secret };
  if (home && secrets) await home.keep({ ...secrets, demo });
  return demo;
}

/**
 * Follows the simulator to where it listens now. @returns false when the kept tenant is not in this database
 * @throws Error when the answer does not say so: a kept key is not given up because the database is slow
 */
async function pointEndpoint(apiUrl: string, kept: DemoTenant, receiverUrl: string): Promise<boolean> {
  const response = await fetch(`${apiUrl}/v1/endpoints/${kept.endpointId}`, {
    method: 'PATCH',
    headers: { authorization: `Bearer ${kept.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ url: receiverUrl }),
  });
  if (response.status === 401 || response.status === 404) {
    await response.body?.cancel();
    return false;
  }
  const text = await response.text();
  if (!response.ok) throw new Error(`the demo endpoint could not be changed: ${response.status} ${text}`);
  return true;
}

async function call<T>(apiUrl: string, key: string, method: string, path: string, body: unknown): Promise<T> {
  const response = await fetch(apiUrl + path, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${text}`);
  return JSON.parse(text) as T;
}
