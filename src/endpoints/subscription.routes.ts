import Type from 'typebox';
import { PageQuery, pageOf } from '../platform/http/page.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { principalOf } from '../tenants/index.ts';
import { EndpointParams } from './endpoint.schemas.ts';
import {
  Subscription,
  SubscriptionBody,
  SubscriptionChange,
  SubscriptionParams,
} from './subscription.schemas.ts';
import type { SubscriptionService } from './subscription.service.ts';

const tags = ['Subscriptions'];

export function subscriptionRoutes(app: HttpServer, subscriptions: SubscriptionService): void {
  app.post(
    '/v1/endpoints/:endpointId/subscriptions',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Subscribe an endpoint to event types',
        params: EndpointParams,
        body: SubscriptionBody,
        response: { 201: Subscription },
      },
    },
    async (request, reply) => {
      const made = await subscriptions.create(principalOf(request), request.params.endpointId, request.body);
      return reply.code(201).send(made);
    },
  );

  app.get(
    '/v1/endpoints/:endpointId/subscriptions',
    {
      config: { auth: 'endpoints:read' },
      schema: {
        tags,
        summary: 'List what an endpoint subscribes to, newest first',
        params: EndpointParams,
        querystring: PageQuery,
        response: { 200: pageOf(Subscription) },
      },
    },
    async (request) => subscriptions.list(principalOf(request), request.params.endpointId, request.query),
  );

  app.patch(
    '/v1/endpoints/:endpointId/subscriptions/:subscriptionId',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'Change the pattern or the filter of a subscription',
        params: SubscriptionParams,
        body: SubscriptionChange,
        response: { 200: Subscription },
      },
    },
    async (request) => {
      const { endpointId, subscriptionId } = request.params;
      return subscriptions.change(principalOf(request), endpointId, subscriptionId, request.body);
    },
  );

  app.delete(
    '/v1/endpoints/:endpointId/subscriptions/:subscriptionId',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags,
        summary: 'End a subscription',
        params: SubscriptionParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      const { endpointId, subscriptionId } = request.params;
      await subscriptions.remove(principalOf(request), endpointId, subscriptionId);
      return reply.code(204).send(null);
    },
  );
}
