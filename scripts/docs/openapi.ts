import openapiTS, { astToString } from 'openapi-typescript';
import { createApi } from '../../src/app/api.ts';
import { createRuntime } from '../../src/app/runtime.ts';
import { loadConfig } from '../../src/config/index.ts';
import { createLogger } from '../../src/platform/telemetry/logger.ts';

/**
 * The OpenAPI document of the API, built as it is built when it serves, on a database that is never connected to. Keys are sorted, so
 * that a difference in the file is a difference of the API.
 */
export async function describeApi(): Promise<object> {
  const config = loadConfig(
    {},
    {
      'database.url': 'postgres://nobody@127.0.0.1:9/none',
      'auth.jwtSecret': 'only for describing the API, never for signing',
      'secrets.key': Buffer.alloc(32).toString('base64'),
    },
  );
  const runtime = createRuntime(config, createLogger('silent', {}));
  const api = await createApi(runtime);
  const document: unknown = api.server.swagger();
  await api.stop(AbortSignal.timeout(1_000));
  await runtime.transport.close();
  await runtime.coordination.close();
  await runtime.database.close();
  return sorted(document) as object;
}

/** Types for sdk/client.ts. */
export async function typesOfApi(document: object): Promise<string> {
  const types = await openapiTS(withoutForcedDefaults(document) as Parameters<typeof openapiTS>[0]);
  return `// Generated from docs/openapi.json by \`npm run docs\`. Do not edit.\n${astToString(types)}`;
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}

/** The server's schemas require what has a default, since they describe the value after it was filled in; a caller may leave it out. */
function withoutForcedDefaults(document: object): unknown {
  return JSON.parse(JSON.stringify(document), (_key, value: unknown) =>
    isDefaulted(value) ? { ...value, required: false } : value,
  );
}

function isDefaulted(value: unknown): value is { readonly schema: { readonly default: unknown } } {
  if (typeof value !== 'object' || value === null || !('in' in value) || !('schema' in value)) return false;
  const { schema } = value;
  return typeof schema === 'object' && schema !== null && 'default' in schema;
}
