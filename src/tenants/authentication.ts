import type { FastifyRequest } from 'fastify';
import type { HttpServer } from '../platform/http/server.ts';
import type { Authenticator } from './authenticator.ts';
import type { Principal, Scope } from './scopes.ts';
import { credentialMissing, scopeMissing } from './tenants.errors.ts';

/** Who may call a route: anybody, anybody with a valid credential, or those who have one scope. */
export type AccessRule = Scope | 'public' | 'authenticated';

/**
 * What these routes write or show outlasts the trusted time of a cached finding (an endpoint receives events for good), so their callers are
 * looked up each time. Routes that issue a credential look once more, in the transaction that issues it (issuer.ts).
 */
const LASTING: ReadonlySet<AccessRule> = new Set<Scope>([
  'endpoints:write',
  'endpoints:secrets',
  'keys:write',
  'users:write',
]);

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every route states it; registration fails without (src/tenants/authentication.ts). */
    auth?: AccessRule;
  }
  interface FastifyRequest {
    /** Set on routes that are not public. Read it through `principalOf`. */
    principal: Principal | null;
  }
}

/** Bytes of a body that is read before anybody is known: an address, a password and a token, written as escapes. */
const MAX_PUBLIC_BODY_BYTES = 8_192;

/**
 * Guards every route of `app`, before the body is read. Call it once, on the server itself, before features add routes: a route that
 * does not say `config: { auth }` throws when it is added. Only documentation (`schema.hide`) may leave it out.
 */
export function registerAuthentication(app: HttpServer, authenticator: Authenticator): void {
  app.decorateRequest('principal', null);
  app.addHook('onRoute', (route) => {
    if (route.config?.auth === 'public') route.bodyLimit ??= MAX_PUBLIC_BODY_BYTES;
    if (route.config?.auth === undefined && route.schema?.hide !== true)
      throw new Error(
        `route ${String(route.method)} ${route.url} does not say who may call it (config.auth)`,
      );
  });
  app.addHook('onRequest', (request, _reply, done) => {
    const rule = ruleOf(request);
    if (rule === 'public') return done();
    const token = bearerToken(request.headers.authorization);
    const freshly = LASTING.has(rule);
    const known = freshly ? undefined : authenticator.known(token);
    if (known !== undefined) {
      admit(request, known, rule);
      return done();
    }
    authenticator
      .authenticate(token, freshly)
      .then((principal) => admit(request, principal, rule))
      .then(() => done(), done);
  });
}

/**
 * Who made this request.
 * @throws Error on a public route, where nobody was asked: a mistake in the route, not of the caller
 */
export function principalOf(request: FastifyRequest): Principal {
  if (request.principal === null) throw new Error(`${request.url} is public and has no principal`);
  return request.principal;
}

/** Routes that were added before the guard, without a rule, stay closed. */
function ruleOf(request: FastifyRequest): AccessRule {
  const { config, schema } = request.routeOptions;
  if (config.auth !== undefined) return config.auth;
  if (request.is404 || schema?.hide === true) return 'public';
  throw new Error(`${request.url} does not say who may call it (config.auth)`);
}

/** RFC 6750, 2.1. The scheme is case-insensitive (RFC 9110, 11.1). */
function bearerToken(header: string | undefined): string {
  if (header === undefined || header.slice(0, 7).toLowerCase() !== 'bearer ') throw credentialMissing();
  const token = header.slice(7).trim();
  if (token === '') throw credentialMissing();
  return token;
}

function admit(request: FastifyRequest, principal: Principal, rule: Exclude<AccessRule, 'public'>): void {
  if (rule !== 'authenticated' && !principal.scopes.has(rule))
    throw scopeMissing({ detail: `This needs the scope ${rule}.`, extra: { scope: rule } });
  request.principal = principal;
}
