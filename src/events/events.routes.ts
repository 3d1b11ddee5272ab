import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { principalOf } from '../tenants/index.ts';
import {
  describeMediaType,
  internalError,
  MAX_LISTED_PROBLEMS,
  mediaTypeUnsupported,
  type Problem,
  toProblem,
} from '../platform/http/problem.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { RelayError } from '../shared/errors.ts';
import { LoopTurns } from '../shared/loop-turns.ts';
import type { TenantId } from '../shared/ids.ts';
import type { Accepted, AcceptResult } from './acceptor.ts';
import {
  binaryEvent,
  isBinaryMode,
  isTraceparent,
  STRUCTURED,
  STRUCTURED_BATCH,
  structuredEvent,
} from './cloudevents.ts';
import { readBatch, readJson } from './batch.ts';
import { readBody } from './body.ts';
import { BodyBudget, type BodyHold } from './body-budget.ts';
import { eventInvalid } from './events.errors.ts';
import {
  AcceptedEvent,
  BatchResult,
  Event,
  EventBatch,
  EventListQuery,
  EventPage,
  EventParams,
  NativeEvent,
  TestEventBody,
} from './event.schemas.ts';
import type { EventsService } from './events.service.ts';
import type { IncomingEvent } from './incoming.ts';
import { idempotencyKeyProblem, MAX_ENVELOPE_BYTES, nativeEvent, type RequestContext } from './native.ts';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Of the ingest routes: bytes of a body, as sent and decoded. */
    maxBodyBytes?: number;
  }
  interface FastifyRequest {
    /** Of the ingest routes. */
    bodyHold: BodyHold | null;
  }
}

/** Bodies up to this size are read where they arrive: it takes well below a millisecond. */
const READ_AT_ONCE_BYTES = 65_536;
const loopTurns = new LoopTurns<TenantId>();
const tags = ['Events'];
const EndpointParams = Type.Object({ endpointId: Type.String() });
const IdempotencyHeaders = Type.Object({
  'idempotency-key': Type.Optional(
    Type.String({ description: 'A repeat with the same key gets the original answer.' }),
  ),
});

export function eventRoutes(app: HttpServer, events: EventsService): void {
  void app.register(async (scope) => ingestRoutes(scope as unknown as HttpServer, events));

  app.get(
    '/v1/events',
    {
      config: { auth: 'events:read' },
      schema: {
        tags,
        summary: 'List events, newest first',
        querystring: EventListQuery,
        response: { 200: EventPage },
      },
    },
    async (request) => events.list(principalOf(request).tenantId, request.query),
  );

  app.post(
    '/v1/endpoints/:endpointId/test-event',
    {
      config: { auth: 'endpoints:write' },
      schema: {
        tags: ['Endpoints'],
        summary: 'Send a test event to this endpoint alone',
        description: 'It goes the whole way, whatever the endpoint subscribes to.',
        params: EndpointParams,
        body: TestEventBody,
        response: { 202: AcceptedEvent },
      },
    },
    async (request, reply) => {
      const { tenantId } = principalOf(request);
      const accepted = await events.sendTest(tenantId, request.params.endpointId, request.body ?? {});
      return reply.code(202).send(toAnswer(accepted));
    },
  );

  app.get(
    '/v1/events/:eventId',
    {
      config: { auth: 'events:read' },
      schema: { tags, summary: 'Get an event', params: EventParams, response: { 200: Event } },
    },
    async (request) => events.get(principalOf(request).tenantId, request.params.eventId),
  );

  app.get(
    '/v1/events/:eventId/payload',
    {
      config: { auth: 'events:read' },
      schema: {
        tags,
        summary: "Get an event's payload, byte for byte",
        params: EventParams,
        response: { 200: Type.Any() },
      },
      // The payload is somebody's data, not a page of ours: no browser may run it.
      serializerCompiler: () => (data) => data as string,
    },
    async (request, reply) => {
      const { payload, contentType } = await events.payload(
        principalOf(request).tenantId,
        request.params.eventId,
      );
      return reply
        .type(contentType)
        .header('content-disposition', 'attachment')
        .header('x-content-type-options', 'nosniff')
        .header('content-security-policy', "default-src 'none'")
        .send(payload);
    },
  );
}

/** In a scope of their own, where bodies of every content type arrive as the bytes they are. */
function ingestRoutes(app: HttpServer, events: EventsService): void {
  const { config } = events;
  const maxEventBytes = Math.min(
    config['ingest.maxRequestBytes'],
    config['ingest.maxPayloadBytes'] + MAX_ENVELOPE_BYTES,
  );
  const budget = new BodyBudget(config['ingest.bodyMemoryBytes']);
  app.decorateRequest('bodyHold', null);
  app.addHook('preParsing', (request, reply, _payload, done) => {
    const hold = budget.open(principalOf(request).tenantId);
    request.bodyHold = hold;
    reply.raw.once('close', () => hold.release());
    done();
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', (request: FastifyRequest, message: IncomingMessage) =>
    readBody(message, request.routeOptions.config.maxBodyBytes!, request.bodyHold!),
  );
  // The schemas here describe; the parsers of this feature check, since they need the bytes as well.
  app.setValidatorCompiler(() => () => true);
  app.addHook('onError', async (_request, _reply, error) => events.noteRefusal(error));

  app.post(
    '/v1/events',
    {
      config: { auth: 'events:write', maxBodyBytes: maxEventBytes },
      schema: {
        tags,
        summary: 'Send an event',
        description:
          'Native JSON, or a CloudEvent in structured (`application/cloudevents+json`) or binary mode (`ce-` headers). ' +
          'Answered after the commit. The header `Idempotency-Replayed: true` marks the answer to a repeat.',
        headers: IdempotencyHeaders,
        body: NativeEvent,
        response: { 202: AcceptedEvent },
      },
    },
    async (request, reply) => {
      const { tenantId } = principalOf(request);
      await events.admit(tenantId, 1);
      const accepted = await events.accept(await singleEvent(request, contextOf(request, events, tenantId)));
      if (accepted.replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(202).send(toAnswer(accepted));
    },
  );

  app.post(
    '/v1/events/batch',
    {
      config: { auth: 'events:write', maxBodyBytes: config['ingest.maxRequestBytes'] },
      schema: {
        tags,
        summary: 'Send many events',
        description:
          'Each event is accepted or rejected on its own. Also takes `application/cloudevents-batch+json`.',
        body: EventBatch,
        response: { 202: BatchResult },
      },
    },
    async (request, reply) => {
      const { tenantId } = principalOf(request);
      const parsed = await batchEvents(
        request,
        contextOf(request, events, tenantId),
        events.config['ingest.maxBatchEvents'],
      );
      await events.admit(tenantId, parsed.length);
      const valid = parsed.filter((entry): entry is IncomingEvent => !(entry instanceof RelayError));
      const results = (await events.acceptAll(valid, () => loopTurns.next(tenantId))).values();
      const answers = parsed.map((entry): AcceptResult =>
        entry instanceof RelayError ? { ok: false, error: entry } : results.next().value!,
      );
      for (const answer of answers) if (!answer.ok) events.noteRefusal(answer.error);
      const accepted = answers.filter((answer) => answer.ok).length;
      const first = answers[0];
      // Nothing of it was taken because a part of us is away: say so as one answer, so that the client sends it again.
      if (
        accepted === 0 &&
        first &&
        !first.ok &&
        valid.length === parsed.length &&
        isUnavailable(first.error)
      )
        throw first.error;
      return reply.code(202).send({
        accepted,
        rejected: answers.length - accepted,
        results: toBatchResults(answers, request),
      });
    },
  );
}

function contextOf(
  request: FastifyRequest,
  events: EventsService,
  tenantId: IncomingEvent['tenantId'],
): RequestContext {
  const key = request.headers['idempotency-key'];
  if (Array.isArray(key))
    throw eventInvalid({ fields: [{ field: 'Idempotency-Key', reason: 'is there twice' }] });
  const problem = key === undefined ? null : idempotencyKeyProblem(key);
  if (problem !== null)
    throw eventInvalid({
      fields: [
        { field: 'Idempotency-Key', reason: problem, fix: 'Send a short unique text, such as a UUID.' },
      ],
    });
  const traceparent = request.headers['traceparent'];
  return {
    tenantId,
    turn: () => loopTurns.next(tenantId),
    maxPayloadBytes: events.config['ingest.maxPayloadBytes'],
    idempotencyKey: key ?? null,
    traceparent: typeof traceparent === 'string' && isTraceparent(traceparent) ? traceparent : null,
  };
}

/** Large bodies wait for their turn on the event loop; small ones are read at once. */
async function singleEvent(request: FastifyRequest, context: RequestContext): Promise<IncomingEvent> {
  const body = bodyOf(request);
  if (isBinaryMode(request.headers)) return binaryEvent(request.headers, body, context);
  const mediaType = mediaTypeOf(request);
  const read =
    mediaType === STRUCTURED ? structuredEvent : mediaType === 'application/json' ? nativeEvent : null;
  if (read === null)
    throw mediaTypeUnsupported({
      detail: `${describeMediaType(mediaType)} Send application/json, ${STRUCTURED}, or a CloudEvent in binary mode.`,
    });
  if (body.length > READ_AT_ONCE_BYTES) await context.turn();
  return readJson(body, async (reader) => {
    const event = await read(reader, body, context);
    reader.readEnd();
    return event;
  });
}

/** Events, or the reason why one is not valid, in order. */
async function batchEvents(
  request: FastifyRequest,
  context: RequestContext,
  maxEvents: number,
): Promise<(IncomingEvent | RelayError)[]> {
  if (context.idempotencyKey !== null) {
    throw eventInvalid({
      fields: [
        { field: 'Idempotency-Key', reason: 'cannot stand for a batch', fix: 'Give each event its own key.' },
      ],
    });
  }
  const mediaType = mediaTypeOf(request);
  const isStructured = mediaType === STRUCTURED_BATCH;
  if (!isStructured && mediaType !== 'application/json')
    throw mediaTypeUnsupported({
      detail: `${describeMediaType(mediaType)} Send application/json or ${STRUCTURED_BATCH}.`,
    });
  return readBatch(bodyOf(request), isStructured ? 'structured' : 'native', context, maxEvents);
}

function bodyOf(request: FastifyRequest): Buffer {
  return Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
}

function mediaTypeOf(request: FastifyRequest): string {
  return (request.headers['content-type'] ?? '').split(';', 1)[0]!.trim().toLowerCase();
}

function toAnswer(accepted: Accepted) {
  return {
    eventId: accepted.eventId,
    acceptedAt: accepted.acceptedAt.toISOString(),
    deliveries: accepted.deliveries,
  };
}

/** All together list no more problems than one problem document does. */
function toBatchResults(answers: readonly AcceptResult[], request: FastifyRequest) {
  let listed = 0;
  return answers.map((answer) => {
    if (answer.ok)
      return {
        status: 'accepted' as const,
        replayed: answer.accepted.replayed,
        ...toAnswer(answer.accepted),
      };
    const error = answer.error instanceof RelayError ? answer.error : internalError();
    if (error !== answer.error) request.log.error({ err: answer.error }, 'event of a batch failed');
    const problem = toProblem(error, request.id, Math.max(0, MAX_LISTED_PROBLEMS - listed));
    listed += 1 + (error.occurrence.fields?.length ?? 0);
    return {
      status: 'rejected' as const,
      error: listed > MAX_LISTED_PROBLEMS ? shortened(problem) : problem,
    };
  });
}

/** What a client needs to know of one more rejection. */
function shortened({ type, status, code, requestId, originalEventId }: Problem) {
  return { type, status, code, requestId, ...(originalEventId === undefined ? {} : { originalEventId }) };
}

function isUnavailable(error: Error): boolean {
  return !(error instanceof RelayError) || error.kind === 'unavailable';
}
