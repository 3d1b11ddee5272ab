import Type from 'typebox';
import type { HttpServer } from '../platform/http/server.ts';
import { principalOf } from '../tenants/index.ts';
import { EndpointParams } from './endpoint.schemas.ts';
import { CurrentSecret, EndpointSecrets, RotatedSecret, SecretRotationBody } from './secret.schemas.ts';
import type { SecretService } from './secret.service.ts';

const tags = ['Endpoints'];

export function secretRoutes(app: HttpServer, secrets: SecretService): void {
  app.post(
    '/v1/endpoints/:endpointId/rotate-secret',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Replace the signing secret, shown once; old ones sign beside it for the overlap',
        params: EndpointParams,
        body: Type.Union([SecretRotationBody, Type.Null()]),
        response: { 201: RotatedSecret },
      },
    },
    async (request, reply) => {
      const rotated = await secrets.rotate(
        principalOf(request),
        request.params.endpointId,
        request.body ?? {},
      );
      return reply.code(201).header('cache-control', 'no-store').send(rotated);
    },
  );

  app.get(
    '/v1/endpoints/:endpointId/secrets',
    {
      config: { auth: 'endpoints:read' },
      schema: {
        tags,
        summary: 'List when the signing secrets were made and when they end',
        params: EndpointParams,
        response: { 200: EndpointSecrets },
      },
    },
    async (request) => secrets.list(principalOf(request), request.params.endpointId),
  );

  app.get(
    '/v1/endpoints/:endpointId/secrets/current',
    {
      config: { auth: 'endpoints:secrets' },
      schema: {
        tags,
        summary: 'Read the newest signing secret; each reading is logged',
        params: EndpointParams,
        response: { 200: CurrentSecret },
      },
    },
    async (request, reply) => {
      const current = await secrets.readCurrent(principalOf(request), request.params.endpointId);
      return reply.header('cache-control', 'no-store').send(current);
    },
  );
}
