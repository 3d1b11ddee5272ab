import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance, FastifySchema } from 'fastify';

/** The page loads what it needs from here alone, and nobody may frame it. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const ProblemAnswer = {
  description: 'A problem document (RFC 9457); docs/errors.md lists the codes.',
  content: { 'application/problem+json': { schema: { type: 'object', additionalProperties: true } } },
};

/** The OpenAPI document at /openapi.json, and the interactive documentation at /docs. */
export async function serveDocumentation(app: FastifyInstance, version: string): Promise<void> {
  await app.register(fastifySwagger, {
    transform: ({ schema, url, route }) => ({ schema: documented(schema, String(route.method), url), url }),
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'RelayOps',
        version,
        description:
          'Takes events in, keeps every one with the work it causes, delivers over HTTP at least once.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key (`rok_…`) or an access token from /v1/auth/login.',
          },
        },
      },
      security: [{ apiKey: [] }],
    },
  });
  await app.register(fastifySwaggerUi, { routePrefix: '/docs', staticCSP: CONTENT_SECURITY_POLICY });
  // Made once, at the start: it is large, and anybody may ask for it.
  let document: Buffer;
  app.addHook('onReady', async () => {
    document = Buffer.from(JSON.stringify(app.swagger()));
  });
  app.get('/openapi.json', { schema: { hide: true } }, async (_request, reply) =>
    reply.type('application/json; charset=utf-8').send(document),
  );
}

/**
 * What the documentation adds to a route's schema: a stable operation ID, the problem answer that every route has, and that a query
 * parameter with a default need not be sent.
 */
function documented(schema: FastifySchema | undefined, method: string, url: string): FastifySchema {
  if (schema === undefined || schema.hide === true) return schema ?? {};
  const words = url
    .replace(/^\/v1\//, '')
    .split(/[/:{}-]+/)
    .filter((word) => word !== '');
  const operationId =
    method.toLowerCase() + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
  const query = schema.querystring as
    { properties: Record<string, { default?: unknown }>; required?: string[] } | undefined;
  return {
    operationId,
    ...schema,
    ...(query
      ? {
          querystring: {
            ...query,
            required: (query.required ?? []).filter((name) => query.properties[name]?.default === undefined),
          },
        }
      : {}),
    response: { ...(schema.response as object | undefined), default: ProblemAnswer },
  };
}
