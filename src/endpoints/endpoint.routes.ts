import Type from 'typebox';
import { pageOf } from '../platform/http/page.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { principalOf } from '../tenants/index.ts';
import {
  Endpoint,
  EndpointChange,
  EndpointListQuery,
  EndpointParams,
  NewEndpoint,
  NewEndpointBody,
  StateBody,
} from './endpoint.schemas.ts';
import type { EndpointService } from './endpoint.service.ts';

const tags = ['Endpoints'];

export function endpointSettingsRoutes(app: HttpServer, endpoints: EndpointService): void {
  app.post(
    '/v1/endpoints',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Make an endpoint; its signing secret is shown once',
        body: NewEndpointBody,
        response: { 201: NewEndpoint },
      },
    },
    async (request, reply) => {
      const made = await endpoints.create(principalOf(request), request.body);
      return reply.code(201).header('cache-control', 'no-store').send(made);
    },
  );

  app.get(
    '/v1/endpoints',
    {
      config: { auth: 'endpoints:read' },
      schema: {
        tags,
        summary: 'List endpoints, newest first',
        querystring: EndpointListQuery,
        response: { 200: pageOf(Endpoint) },
      },
    },
    async (request) => endpoints.list(principalOf(request), request.query),
  );

  app.get(
    '/v1/endpoints/:endpointId',
    {
      config: { auth: 'endpoints:read' },
      schema: { tags, summary: 'Get an endpoint', params: EndpointParams, response: { 200: Endpoint } },
    },
    async (request) => endpoints.get(principalOf(request), request.params.endpointId),
  );

  app.patch(
    '/v1/endpoints/:endpointId',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Change settings of an endpoint',
        params: EndpointParams,
        body: EndpointChange,
        response: { 200: Endpoint },
      },
    },
    async (request) => endpoints.change(principalOf(request), request.params.endpointId, request.body),
  );

  app.delete(
    '/v1/endpoints/:endpointId',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Delete an endpoint; its open deliveries are cancelled',
        params: EndpointParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await endpoints.remove(principalOf(request), request.params.endpointId);
      return reply.code(204).send(null);
    },
  );

  stateRoutes(app, endpoints);
}

const ACTIONS = [
  { action: 'pause', state: 'paused', summary: 'Let the deliveries of an endpoint wait' },
  { action: 'resume', state: 'active', summary: 'Go on with the deliveries of an endpoint' },
  { action: 'disable', state: 'disabled', summary: 'Switch an endpoint off; its deliveries wait' },
  { action: 'enable', state: 'active', summary: 'Switch an endpoint on again' },
] as const;

function stateRoutes(app: HttpServer, endpoints: EndpointService): void {
  for (const { action, state, summary } of ACTIONS) {
    app.post(
      `/v1/endpoints/:endpointId/${action}`,
      {
        config: { auth: 'endpoints:write' },
        schema: {
          tags,
          summary,
          params: EndpointParams,
          body: Type.Union([StateBody, Type.Null()]),
          response: { 200: Endpoint },
        },
      },
      async (request) => {
        const reason = request.body?.reason ?? null;
        return endpoints.setState(principalOf(request), request.params.endpointId, state, reason);
      },
    );
  }
}
