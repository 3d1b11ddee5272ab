import type { IncomingMessage, ServerResponse } from 'node:http';
import { carryOut } from './answer.ts';
import { type Behaviour, readBehaviour } from './behaviour.ts';
import { delayOf, fateOf } from './fate.ts';
import { answerJson, collectBody } from './json-http.ts';
import type { Receiver } from './receiver.ts';
import type { Receivers } from './receivers.ts';

/** Largest request body a receiver takes. */
const MAX_REQUEST_BYTES = 67_108_864;
/** Different URLs whose meaning is remembered; a benchmark sends millions of requests to a few. */
const MAX_TARGETS = 1_000;
const METHODS: ReadonlySet<string | undefined> = new Set(['POST', 'PUT', 'PATCH']);

interface Target {
  readonly receiver: Receiver;
  /** The receiver's own behaviour when the target was read: another one makes it stale. */
  readonly base: Behaviour;
  readonly behaviour: Behaviour;
}

/** Takes requests to `/r/<name>[/any/path][?behaviour]`. */
export class Intake {
  readonly #receivers: Receivers;
  readonly #targets = new Map<string, Target>();

  constructor(receivers: Receivers) {
    this.#receivers = receivers;
  }

  /** @throws SettingsError when the query is no behaviour */
  handle(request: IncomingMessage, response: ServerResponse): void {
    if (!METHODS.has(request.method)) {
      answerJson(response, 405, { error: 'Receivers take POST, PUT and PATCH.' }, [
        'allow',
        'POST, PUT, PATCH',
      ]);
      return;
    }
    const target = this.#target(request.url ?? '');
    if (!target) {
      answerJson(response, 404, {
        error: 'No such receiver.',
        fix: 'Name it with 1 to 64 of A-Z a-z 0-9 . _ - ; there may be too many already.',
      });
      return;
    }
    collectBody(request, response, MAX_REQUEST_BYTES, (body) => meet(target, request, response, body));
  }

  #target(url: string): Target | undefined {
    const known = this.#targets.get(url);
    if (known && known.base === known.receiver.behaviour) return known;
    const target = this.#read(url);
    if (target) {
      if (this.#targets.size >= MAX_TARGETS) this.#targets.clear();
      this.#targets.set(url, target);
    }
    return target;
  }

  #read(url: string): Target | undefined {
    const [path = '', query = ''] = url.split(/\?(.*)/s, 2);
    const receiver = this.#receivers.named(path.split('/')[2] ?? '');
    if (!receiver) return undefined;
    const base = receiver.behaviour;
    return {
      receiver,
      base,
      behaviour: query === '' ? base : readBehaviour(new URLSearchParams(query), base),
    };
  }
}

function meet(
  { receiver, behaviour }: Target,
  request: IncomingMessage,
  response: ServerResponse,
  body: Buffer,
): void {
  const arrival = receiver.arrive(request, body);
  const fate = fateOf(behaviour, arrival.occasion);
  const delayMs = delayOf(behaviour, arrival.occasion);
  if (delayMs === 0) return carryOut(fate, behaviour, arrival, response);
  const left = (): void => {
    clearTimeout(timer);
    arrival.end('left');
  };
  const timer = setTimeout(() => {
    response.off('close', left);
    carryOut(fate, behaviour, arrival, response);
  }, delayMs);
  response.once('close', left);
}
