import type { IncomingMessage, ServerResponse } from 'node:http';
import type { FieldProblem } from '../shared/errors.ts';
import {
  type BehaviourInput,
  SettingsError,
  HEALTHY,
  SETTINGS,
  behaviourEntries,
  readBehaviour,
} from './behaviour.ts';
import { answerJson, collectBody } from './json-http.ts';
import type { Receiver } from './receiver.ts';
import type { Receivers } from './receivers.ts';

/** What can be set of a receiver. A member that is left out stays as it is; a behaviour that is given replaces the old one whole. */
export interface ReceiverSettings {
  readonly behaviour?: BehaviourInput;
  /** `whsec_<base64>`, several during a rotation; none: signatures stay unchecked. */
  readonly secrets?: readonly string[];
}

const MAX_CONTROL_BYTES = 1_048_576;
const MAX_SECRETS = 16;
const SECRET = /^whsec_(?=.)(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
const PAGES = {
  requests: { usual: 100, most: 10_000 },
  deliveries: { usual: 10_000, most: 100_000 },
} as const;

/**
 * Sets a receiver, all or nothing.
 * @throws SettingsError naming every field that makes no sense
 */
export function configure(receiver: Receiver, settings: unknown): void {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    throw new SettingsError([
      { field: 'body', reason: 'is not a JSON object', fix: 'Send {"behaviour": {…}, "secrets": […]}.' },
    ]);
  const unknown = Object.keys(settings).filter((name) => name !== 'behaviour' && name !== 'secrets');
  if (unknown.length > 0)
    throw new SettingsError(
      unknown.map((field) => ({ field, reason: 'is not known', fix: 'Use behaviour and secrets.' })),
    );
  const { behaviour, secrets } = settings as Record<string, unknown>;
  const nextBehaviour =
    behaviour === undefined ? undefined : readBehaviour(behaviourEntries(behaviour), HEALTHY);
  const nextSecrets = secrets === undefined ? undefined : checkedSecrets(secrets);
  if (nextBehaviour) receiver.behaviour = nextBehaviour;
  if (nextSecrets) receiver.secrets = nextSecrets;
}

function checkedSecrets(secrets: unknown): readonly string[] {
  const isList = Array.isArray(secrets) && secrets.length <= MAX_SECRETS;
  if (isList && secrets.every((s): s is string => typeof s === 'string' && SECRET.test(s))) return secrets;
  throw new SettingsError([
    {
      field: 'secrets',
      reason: `is not a list of at most ${MAX_SECRETS} signing secrets`,
      fix: 'Write ["whsec_<base64>"].',
    },
  ]);
}

/** The simulator's own JSON API, beside the receivers. */
export class Control {
  readonly #receivers: Receivers;

  constructor(receivers: Receivers) {
    this.#receivers = receivers;
  }

  /** @throws SettingsError when a parameter makes no sense */
  handle(request: IncomingMessage, response: ServerResponse): void {
    const [path = '', query = ''] = (request.url ?? '/').split(/\?(.*)/s, 2);
    const [root = '', name, view, ...more] = path.split('/').slice(1);
    if (root === '' && name === undefined && request.method === 'GET')
      return answerJson(response, 200, manual());
    const isKnown = root === 'receivers' && more.length === 0;
    if (isKnown && name === undefined && request.method === 'GET')
      return answerJson(response, 200, { receivers: this.#receivers.all().map(described) });
    const receiver = isKnown && name !== undefined ? this.#receivers.named(name) : undefined;
    if (!receiver)
      return answerJson(response, 404, { error: 'There is nothing here.', fix: 'GET / has the routes.' });
    if (request.method === 'GET') return look(receiver, view, new URLSearchParams(query), response);
    if (view === undefined && request.method === 'DELETE') {
      receiver.reset();
      return answerJson(response, 200, described(receiver));
    }
    if (view === undefined && request.method === 'PUT')
      return collectBody(request, response, MAX_CONTROL_BYTES, (body) =>
        orProblems(response, () => {
          configure(receiver, parsed(body));
          answerJson(response, 200, described(receiver));
        }),
      );
    answerJson(response, 405, { error: 'That method is not for this path.', fix: 'GET / has the routes.' });
  }
}

/** Runs a handler; settings that make no sense become a 400 that names them. */
export function orProblems(response: ServerResponse, handler: () => void): void {
  try {
    handler();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    answerJson(response, 400, { error: 'The request makes no sense.', errors: error.problems });
  }
}

function look(
  receiver: Receiver,
  view: string | undefined,
  query: URLSearchParams,
  response: ServerResponse,
): void {
  switch (view) {
    case undefined:
      return answerJson(response, 200, { ...described(receiver), last: receiver.log.last ?? null });
    case 'summary':
      return answerJson(response, 200, receiver.summary());
    case 'requests': {
      const { after, limit } = pageOf(query, -1, PAGES.requests);
      const requests = receiver.log.page(after, limit);
      return answerJson(response, 200, { requests, after: requests.at(-1)?.seq ?? after });
    }
    case 'deliveries': {
      const { after, limit } = pageOf(query, 0, PAGES.deliveries);
      const deliveries = receiver.ledger.page(after, limit);
      return answerJson(response, 200, {
        columns: ['deliveryId', 'requests', 'okAnswers', 'bodySha256'],
        deliveries,
        after: after + deliveries.length,
      });
    }
    default:
      return answerJson(response, 404, { error: 'No such view.', fix: 'GET / has the routes.' });
  }
}

/** Secrets are counted, never shown. */
function described(receiver: Receiver): Record<string, unknown> {
  const { name, behaviour, secrets } = receiver;
  return { name, path: `/r/${name}`, behaviour, secrets: secrets.length, ...receiver.summary() };
}

function pageOf(
  query: URLSearchParams,
  start: number,
  { usual, most }: { readonly usual: number; readonly most: number },
): { after: number; limit: number } {
  const problems: FieldProblem[] = [];
  const read = (field: string, otherwise: number, max: number): number => {
    const text = query.get(field);
    if (text === null) return otherwise;
    const value = /^\d{1,15}$/.test(text) ? Number(text) : NaN;
    if (!(value <= max)) problems.push({ field, reason: `is not a whole number up to ${max}` });
    return value;
  };
  const page = {
    after: read('after', start, Number.MAX_SAFE_INTEGER),
    limit: read('limit', usual, most),
  };
  if (problems.length > 0) throw new SettingsError(problems);
  return page;
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch (error) {
    throw new SettingsError([
      { field: 'body', reason: `is not JSON: ${(error as Error).message}`, fix: 'Send one JSON object.' },
    ]);
  }
}

function manual(): Record<string, unknown> {
  return {
    routes: {
      'POST /r/<name>[/path][?settings]': 'The receiver. Settings in the query go before its own.',
      'GET /receivers': 'All receivers with their counts.',
      'GET /receivers/<name>': 'One receiver with its last request.',
      'PUT /receivers/<name>': 'Set {"behaviour": {…settings}, "secrets": ["whsec_…"]}.',
      'DELETE /receivers/<name>': 'Forget everything about it.',
      'GET /receivers/<name>/summary': 'Its counts alone.',
      'GET /receivers/<name>/requests?after=&limit=': 'What it got; after: the last sequence number seen.',
      'GET /receivers/<name>/deliveries?after=&limit=': 'Its ledger by delivery ID; after: rows seen so far.',
    },
    settings: Object.fromEntries(
      Object.entries(SETTINGS).map(([name, { default: usual, text }]) => [
        name,
        { default: usual ?? null, text },
      ]),
    ),
  };
}
