import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { principalOf } from '../tenants/index.ts';
import { internalError, mediaTypeUnsupported, toProblem } from '../platform/http/problem.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { RelayError } from '../shared/errors.ts';
import type { Accepted, AcceptResult } from './acceptor.ts';
import {
  binaryEvent,
  isBinaryMode,
  isTraceparent,
  STRUCTURED,
  STRUCTURED_BATCH,
  structuredEvent,
} from './cloudevents.ts';
import { batchTooLarge, eventInvalid } from './events.errors.ts';
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
import { arrayElements, objectMembers } from './json-slices.ts';
import { idempotencyKeyProblem, nativeEvent, parseJson, type RequestContext } from './native.ts';

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
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  // The schemas here describe; the parsers of this feature check, since they need the bytes as well.
  app.setValidatorCompiler(() => () => true);
  app.addHook('onError', async (_request, _reply, error) => events.noteRefusal(error));

  app.post(
    '/v1/events',
    {
      config: { auth: 'events:write' },
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
      const accepted = await events.accept(singleEvent(request, contextOf(request, events, tenantId)));
      if (accepted.replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(202).send(toAnswer(accepted));
    },
  );

  app.post(
    '/v1/events/batch',
    {
      config: { auth: 'events:write' },
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
      const parsed = batchEvents(
        request,
        contextOf(request, events, tenantId),
        events.config['ingest.maxBatchEvents'],
      );
      await events.admit(tenantId, parsed.length);
      const valid = parsed.filter((entry): entry is IncomingEvent => !(entry instanceof RelayError));
      const results = (await events.acceptAll(valid)).values();
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
        results: answers.map((answer) => toBatchEntry(answer, request)),
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
    maxPayloadBytes: events.config['ingest.maxPayloadBytes'],
    idempotencyKey: key ?? null,
    traceparent: typeof traceparent === 'string' && isTraceparent(traceparent) ? traceparent : null,
  };
}

function singleEvent(request: FastifyRequest, context: RequestContext): IncomingEvent {
  const body = bodyOf(request);
  if (isBinaryMode(request.headers)) return binaryEvent(request.headers, body, context);
  const mediaType = mediaTypeOf(request);
  if (mediaType === STRUCTURED) return structuredEvent(parseJson(body), body, context);
  if (mediaType === 'application/json') return nativeEvent(parseJson(body), body, 0, context);
  throw mediaTypeUnsupported({
    detail: 'Send application/json, application/cloudevents+json, or a CloudEvent in binary mode.',
  });
}

/** Events, or the reason why one is not valid, in order. */
function batchEvents(
  request: FastifyRequest,
  context: RequestContext,
  maxEvents: number,
): (IncomingEvent | RelayError)[] {
  const body = bodyOf(request);
  const mediaType = mediaTypeOf(request);
  if (context.idempotencyKey !== null) {
    throw eventInvalid({
      fields: [
        { field: 'Idempotency-Key', reason: 'cannot stand for a batch', fix: 'Give each event its own key.' },
      ],
    });
  }
  const value = parseJson(body);
  if (mediaType === STRUCTURED_BATCH) {
    if (!Array.isArray(value))
      throw eventInvalid({ fields: [{ field: 'body', reason: 'is not an array of CloudEvents' }] });
    refuseTooMany(value.length, maxEvents);
    const slices = arrayElements(body);
    return value.map((item, i) =>
      valueOrError(() => structuredEvent(item, body.subarray(slices[i]!.start, slices[i]!.end), context)),
    );
  }
  if (mediaType !== 'application/json')
    throw mediaTypeUnsupported({ detail: `Send application/json or ${STRUCTURED_BATCH}.` });
  const { events: items, ...others } = (value ?? {}) as Record<string, unknown>;
  if (!Array.isArray(items) || items.length === 0) {
    throw eventInvalid({
      fields: [
        {
          field: 'events',
          reason: 'is not a non-empty array',
          fix: 'Send {"events": [{"type": …, "payload": …}]}.',
        },
      ],
    });
  }
  const unknown = Object.keys(others);
  if (unknown.length > 0)
    throw eventInvalid({
      fields: unknown.map((field) => ({
        field,
        reason: 'is not a known field',
        fix: 'Send "events" alone.',
      })),
    });
  refuseTooMany(items.length, maxEvents);
  const slices = arrayElements(body, objectMembers(body).get('events')!.start);
  return items.map((item, i) => valueOrError(() => nativeEvent(item, body, slices[i]!.start, context)));
}

/** Before any of them is looked at: a body full of wrong little values would make as many errors. @throws BATCH_TOO_LARGE */
function refuseTooMany(events: number, maxEvents: number): void {
  if (events > maxEvents)
    throw batchTooLarge({ detail: `${events} events; at most ${maxEvents} are allowed.` });
}

function valueOrError<T>(parse: () => T): T | RelayError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
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

function toBatchEntry(answer: AcceptResult, request: FastifyRequest) {
  if (answer.ok)
    return { status: 'accepted' as const, replayed: answer.accepted.replayed, ...toAnswer(answer.accepted) };
  if (answer.error instanceof RelayError)
    return { status: 'rejected' as const, error: toProblem(answer.error, request.id) };
  request.log.error({ err: answer.error }, 'event of a batch failed');
  return { status: 'rejected' as const, error: toProblem(internalError(), request.id) };
}

function isUnavailable(error: Error): boolean {
  return !(error instanceof RelayError) || error.kind === 'unavailable';
}
