import Type from 'typebox';
import type { HttpServer } from '../platform/http/server.ts';
import { UserParams } from './account.schemas.ts';
import { principalOf } from './authentication.ts';
import { PasswordChange, PasswordReset, PasswordResetBody } from './password.schemas.ts';
import type { PasswordService } from './password.service.ts';
import { Session } from './session.schemas.ts';

export function passwordRoutes(app: HttpServer, passwords: PasswordService): void {
  app.post(
    '/v1/me/password',
    {
      config: { auth: 'authenticated' },
      schema: {
        tags: ['Users'],
        summary: "Change one's own password",
        description: 'Ends all sessions of the user. The answer is a new one.',
        body: PasswordChange,
        response: { 200: Session },
      },
    },
    async (request, reply) => {
      const session = await passwords.change(principalOf(request), request.body, request.clientAddress);
      return reply.header('cache-control', 'no-store').send(session);
    },
  );

  app.post(
    '/v1/users/:userId/password-reset',
    {
      config: { auth: 'users:write' },
      schema: {
        tags: ['Users'],
        summary: 'Make a token by which a user sets a new password; it is shown once',
        params: UserParams,
        response: { 201: PasswordReset },
      },
    },
    async (request, reply) => {
      const reset = await passwords.issueReset(principalOf(request), request.params.userId);
      return reply.code(201).header('cache-control', 'no-store').send(reset);
    },
  );

  app.post(
    '/v1/auth/password-reset',
    {
      config: { auth: 'public' },
      schema: {
        tags: ['Sessions'],
        security: [],
        summary: 'Set a new password by a reset token',
        description: 'Ends all sessions of the user. Log in afterwards.',
        body: PasswordResetBody,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await passwords.redeem(request.body, request.clientAddress);
      return reply.code(204).send(null);
    },
  );
}
