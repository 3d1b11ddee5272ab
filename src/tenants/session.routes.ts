import Type from 'typebox';
import type { FastifyReply } from 'fastify';
import type { HttpServer } from '../platform/http/server.ts';
import { LoginBody, RefreshBody, Session, SignUpBody, SignedUp } from './session.schemas.ts';
import type { SessionService } from './session.service.ts';

const common = { tags: ['Sessions'], security: [] };

export function sessionRoutes(app: HttpServer, sessions: SessionService): void {
  app.post(
    '/v1/signup',
    {
      config: { auth: 'public' },
      schema: {
        ...common,
        summary: 'Make a tenant and its first owner from a bootstrap token',
        body: SignUpBody,
        response: { 201: SignedUp },
      },
    },
    async (request, reply) => {
      const signedUp = await sessions.signUp(request.body, request.clientAddress);
      return neverStored(reply).code(201).send(signedUp);
    },
  );

  app.post(
    '/v1/auth/login',
    {
      config: { auth: 'public' },
      schema: {
        ...common,
        summary: 'Exchange e-mail and password for an access token and a refresh token',
        body: LoginBody,
        response: { 200: Session },
      },
    },
    async (request, reply) => {
      const session = await sessions.logIn(request.body, request.clientAddress);
      return neverStored(reply).send(session);
    },
  );

  app.post(
    '/v1/auth/refresh',
    {
      config: { auth: 'public' },
      schema: {
        ...common,
        summary: 'Exchange a refresh token, once, for new tokens',
        description: 'A token that comes a second time ends all sessions of its user.',
        body: RefreshBody,
        response: { 200: Session },
      },
    },
    async (request, reply) => {
      const session = await sessions.refresh(request.body.refreshToken, request.clientAddress);
      return neverStored(reply).send(session);
    },
  );

  app.post(
    '/v1/auth/logout',
    {
      config: { auth: 'public' },
      schema: {
        ...common,
        summary: 'End all sessions of the user of a refresh token',
        description: 'Access tokens end at once in this process and within auth.keyCacheMs in others.',
        body: RefreshBody,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await sessions.logOut(request.body.refreshToken, request.clientAddress);
      return reply.code(204).send(null);
    },
  );
}

/** Answers with tokens must not stay in a cache on the way (RFC 6749, 5.1). */
function neverStored<Reply extends FastifyReply>(reply: Reply): Reply {
  void reply.header('cache-control', 'no-store');
  return reply;
}
