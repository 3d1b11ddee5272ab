import type { Attempt, Delivery, Stats } from '../../src/delivery/delivery.schemas.ts';
import type { Endpoint, NewEndpoint, NewEndpointBody } from '../../src/endpoints/endpoint.schemas.ts';
import type { Page } from '../../src/platform/http/page.ts';
import type { Problem } from '../../src/platform/http/problem.ts';
import { until } from './until.ts';

/** An answer of the API, whatever its status. */
export interface Answer<Body> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
  readonly text: string;
}

export interface AcceptedEvent {
  readonly eventId: string;
  readonly acceptedAt: string;
  readonly deliveries: number;
}

export type { Attempt, Delivery, Endpoint, Page, Problem, Stats };

const JSON_TYPE = { 'content-type': 'application/json' };

/** Calls the HTTP API with one credential, as a client on another machine would. */
export class RelayClient {
  readonly url: string;
  readonly key: string;

  constructor(url: string, key: string) {
    this.url = url;
    this.key = key;
  }

  /** The same credential, against another process. */
  at(url: string): RelayClient {
    return new RelayClient(url, this.key);
  }

  /** @param body bytes and text go as they are, without a content type of their own; anything else as JSON */
  async call<Body = Problem>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Answer<Body>> {
    const raw = typeof body === 'string' || body instanceof Uint8Array;
    const response = await fetch(this.url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(this.key === '' ? {} : { authorization: `Bearer ${this.key}` }),
        ...(body === undefined || raw ? {} : JSON_TYPE),
        ...headers,
      },
      ...(body === undefined ? {} : { body: raw ? Buffer.from(body) : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = /json/.test(response.headers.get('content-type') ?? '');
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson && text !== '' ? JSON.parse(text) : undefined) as Body,
      text,
    };
  }

  /** @throws Error when the answer is not 2xx */
  async ok<Body>(
    method: string,
    path: string,
    body?: unknown,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Body> {
    const answer = await this.call<Body>(method, path, body, headers);
    if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`);
    return answer.body;
  }

  /** An event in the native form. */
  send(type: string, payload: unknown = {}, idempotencyKey?: string): Promise<AcceptedEvent> {
    return this.ok('POST', '/v1/events', {
      type,
      payload,
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    });
  }

  /** An event whose payload is this very text. */
  sendText(type: string, payload: string): Promise<AcceptedEvent> {
    return this.ok('POST', '/v1/events', `{"type":${JSON.stringify(type)},"payload":${payload}}`, JSON_TYPE);
  }

  /** Many events in as few requests as are allowed. */
  async sendMany(type: string, count: number): Promise<void> {
    for (let at = 0; at < count; at += 500) {
      const size = Math.min(500, count - at);
      const events = Array.from({ length: size }, (_, i) => ({ type, payload: { n: at + i } }));
      const { rejected } = await this.ok<{ rejected: number }>('POST', '/v1/events/batch', { events });
      if (rejected > 0) throw new Error(`${rejected} events of a batch were rejected`);
    }
  }

  /** An endpoint that subscribes to `pattern`. */
  async endpoint(
    url: string,
    pattern: string,
    settings: Partial<NewEndpointBody> = {},
  ): Promise<Endpoint & { readonly secret: string }> {
    const body = { url, subscriptions: [{ pattern }], ...settings };
    const { endpoint, secret } = await this.ok<NewEndpoint>('POST', '/v1/endpoints', body);
    return { ...endpoint, secret };
  }

  delivery(deliveryId: string): Promise<Delivery> {
    return this.ok('GET', `/v1/deliveries/${deliveryId}`);
  }

  async deliveries(query: Readonly<Record<string, string>> = {}): Promise<Delivery[]> {
    const search = new URLSearchParams({ limit: '200', ...query });
    return (await this.ok<Page<Delivery>>('GET', `/v1/deliveries?${search.toString()}`)).data;
  }

  /** The delivery of an event that has one. */
  async deliveryOf(eventId: string): Promise<Delivery> {
    const [delivery, second] = await this.deliveries({ eventId });
    if (delivery === undefined || second !== undefined) throw new Error(`${eventId} has not one delivery`);
    return delivery;
  }

  async attempts(deliveryId: string): Promise<Attempt[]> {
    return (await this.ok<{ data: Attempt[] }>('GET', `/v1/deliveries/${deliveryId}/attempts`)).data;
  }

  stats(): Promise<Stats> {
    return this.ok('GET', '/v1/stats');
  }

  /** Waits until the tenant has no open delivery. */
  async untilSettled(limitMs?: number): Promise<void> {
    await until(
      'no open delivery',
      () => this.stats(),
      (stats) => stats.open.count === 0,
      limitMs,
    );
  }

  async untilState(deliveryId: string, state: Delivery['state'], limitMs?: number): Promise<Delivery> {
    return until(
      `delivery ${state}`,
      () => this.delivery(deliveryId),
      (delivery) => delivery.state === state,
      limitMs,
    );
  }

  /** Waits until the one delivery of an event has ended. */
  async untilEnded(eventId: string, limitMs?: number): Promise<Delivery> {
    return until(
      'delivery ended',
      () => this.deliveryOf(eventId),
      (delivery) => delivery.finishedAt !== null,
      limitMs,
    );
  }
}
