import Type from 'typebox';
import type { HttpServer } from '../platform/http/server.ts';
import {
  ApiKey,
  ApiKeyParams,
  NewApiKey,
  NewApiKeyBody,
  RotatedApiKey,
  RotationBody,
} from './api-key.schemas.ts';
import type { ApiKeyService } from './api-key.service.ts';
import { principalOf } from './authentication.ts';
import { PageQuery, pageOf } from '../platform/http/page.ts';

const tags = ['API keys'];

export function apiKeyRoutes(app: HttpServer, apiKeys: ApiKeyService): void {
  app.post(
    '/v1/api-keys',
    {
      config: { auth: 'keys:write' },
      schema: {
        tags,
        summary: 'Make an API key; it is shown once',
        body: NewApiKeyBody,
        response: { 201: NewApiKey },
      },
    },
    async (request, reply) => {
      const made = await apiKeys.create(principalOf(request), request.body);
      return reply.code(201).header('cache-control', 'no-store').send(made);
    },
  );

  app.get(
    '/v1/api-keys',
    {
      config: { auth: 'keys:read' },
      schema: {
        tags,
        summary: 'List API keys, newest first, with those that have ended',
        querystring: PageQuery,
        response: { 200: pageOf(ApiKey) },
      },
    },
    async (request) => apiKeys.list(principalOf(request), request.query),
  );

  app.post(
    '/v1/api-keys/:apiKeyId/rotate',
    {
      config: { auth: 'keys:write' },
      schema: {
        tags,
        summary: 'Replace an API key; the old one goes on for the overlap',
        params: ApiKeyParams,
        body: Type.Union([RotationBody, Type.Null()]),
        response: { 201: RotatedApiKey },
      },
    },
    async (request, reply) => {
      const rotated = await apiKeys.rotate(principalOf(request), request.params.apiKeyId, request.body ?? {});
      return reply.code(201).header('cache-control', 'no-store').send(rotated);
    },
  );

  app.delete(
    '/v1/api-keys/:apiKeyId',
    {
      config: { auth: 'keys:write' },
      schema: {
        tags,
        summary: 'Revoke an API key',
        params: ApiKeyParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await apiKeys.revoke(principalOf(request), request.params.apiKeyId);
      return reply.code(204).send(null);
    },
  );
}
