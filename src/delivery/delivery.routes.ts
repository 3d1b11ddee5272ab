import { endpointExists } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import { momentOf } from '../platform/http/moment.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { isId } from '../shared/ids.ts';
import { principalOf } from '../tenants/index.ts';
import {
  AttemptList,
  Delivery,
  DeliveryListQuery,
  DeliveryPage,
  DeliveryParams,
  EndpointReplayBody,
  JobListQuery,
  JobParams,
  ReplayBody,
  ReplayCount,
  ReplayJob,
  ReplayJobPage,
  Stats,
  StatsQuery,
} from './delivery.schemas.ts';
import type { DeliveryService } from './delivery.service.ts';
import type { ReplayService } from './replay.service.ts';
import Type from 'typebox';

const tags = ['Deliveries'];
const EndpointParams = Type.Object({ endpointId: Type.String() });

export interface DeliveryRoutesDeps {
  readonly database: Database;
  readonly deliveries: DeliveryService;
  readonly replays: ReplayService;
}

export function deliveryRoutes(app: HttpServer, deps: DeliveryRoutesDeps): void {
  lookRoutes(app, deps.deliveries);
  replayRoutes(app, deps);
}

function lookRoutes(app: HttpServer, deliveries: DeliveryService): void {
  app.get(
    '/v1/deliveries',
    {
      config: { auth: 'deliveries:read' },
      schema: {
        tags,
        summary: 'List deliveries',
        description: 'Newest event first; with state pending or in_progress, the next due first.',
        querystring: DeliveryListQuery,
        response: { 200: DeliveryPage },
      },
    },
    async (request) => deliveries.list(principalOf(request).tenantId, request.query),
  );

  app.get(
    '/v1/deliveries/:deliveryId',
    {
      config: { auth: 'deliveries:read' },
      schema: { tags, summary: 'Get a delivery', params: DeliveryParams, response: { 200: Delivery } },
    },
    async (request) => deliveries.get(principalOf(request).tenantId, request.params.deliveryId),
  );

  app.get(
    '/v1/deliveries/:deliveryId/attempts',
    {
      config: { auth: 'deliveries:read' },
      schema: {
        tags,
        summary: 'All attempts of a delivery, in order',
        params: DeliveryParams,
        response: { 200: AttemptList },
      },
    },
    async (request) => ({
      data: await deliveries.attempts(principalOf(request).tenantId, request.params.deliveryId),
    }),
  );

  app.post(
    '/v1/deliveries/:deliveryId/cancel',
    {
      config: { auth: 'deliveries:write' },
      schema: {
        tags,
        summary: 'Cancel an open delivery',
        params: DeliveryParams,
        response: { 200: Delivery },
      },
    },
    async (request) => {
      const { tenantId, actor } = principalOf(request);
      return deliveries.cancel(tenantId, request.params.deliveryId, actor);
    },
  );

  app.get(
    '/v1/stats',
    {
      config: { auth: 'stats:read' },
      schema: {
        tags: ['Stats'],
        summary: 'Bounded counts of a window',
        querystring: StatsQuery,
        response: { 200: Stats },
      },
    },
    async (request) =>
      deliveries.stats(principalOf(request).tenantId, request.query.minutes, request.query.endpointId),
  );
}

function replayRoutes(app: HttpServer, { database, deliveries, replays }: DeliveryRoutesDeps): void {
  app.post(
    '/v1/deliveries/:deliveryId/replay',
    {
      config: { auth: 'deliveries:write' },
      schema: {
        tags,
        summary: 'Send an ended delivery again',
        params: DeliveryParams,
        response: { 202: Delivery },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      await replays.one(principal, request.params.deliveryId);
      return reply.code(202).send(await deliveries.get(principal.tenantId, request.params.deliveryId));
    },
  );

  app.post(
    '/v1/replays',
    {
      config: { auth: 'deliveries:write' },
      schema: {
        tags: ['Replays'],
        summary: 'Send ended deliveries again, by filter',
        description: 'A durable job: it survives restarts and can be cancelled. With dryRun it only counts.',
        body: ReplayBody,
        response: { 200: ReplayCount, 202: ReplayJob },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      if (request.body.dryRun !== true)
        return reply.code(202).send(await replays.start(principal, request.body));
      return reply
        .code(200)
        .send({ dryRun: true as const, ...(await replays.count(principal.tenantId, request.body)) });
    },
  );

  app.post(
    '/v1/endpoints/:endpointId/replay',
    {
      config: { auth: 'deliveries:write' },
      schema: {
        tags: ['Replays'],
        summary: "Send an endpoint's failed and dead deliveries again, since a time",
        params: EndpointParams,
        body: EndpointReplayBody,
        response: { 202: ReplayJob },
      },
    },
    async (request, reply) => {
      const principal = principalOf(request);
      const { endpointId } = request.params;
      if (!isId(endpointId) || !(await endpointExists(database.requests, principal.tenantId, endpointId)))
        throw routeNotFound();
      const { since } = request.body;
      momentOf(since, 'body/since');
      return reply.code(202).send(await replays.start(principal, { endpointId, from: since }));
    },
  );

  app.get(
    '/v1/replays',
    {
      config: { auth: 'deliveries:read' },
      schema: {
        tags: ['Replays'],
        summary: 'List replay jobs, newest first',
        querystring: JobListQuery,
        response: { 200: ReplayJobPage },
      },
    },
    async (request) => replays.jobs(principalOf(request).tenantId, request.query),
  );

  app.get(
    '/v1/replays/:jobId',
    {
      config: { auth: 'deliveries:read' },
      schema: {
        tags: ['Replays'],
        summary: "Get a replay job's progress",
        params: JobParams,
        response: { 200: ReplayJob },
      },
    },
    async (request) => replays.job(principalOf(request).tenantId, request.params.jobId),
  );

  app.post(
    '/v1/replays/:jobId/cancel',
    {
      config: { auth: 'deliveries:write' },
      schema: {
        tags: ['Replays'],
        summary: 'Cancel a running replay job',
        params: JobParams,
        response: { 200: ReplayJob },
      },
    },
    async (request) => replays.cancel(principalOf(request).tenantId, request.params.jobId),
  );
}
