import Type from 'typebox';
import type { HttpServer } from '../platform/http/server.ts';
import { Me, NewUserBody, Tenant, TenantChange, User, UserChange, UserParams } from './account.schemas.ts';
import { principalOf } from './authentication.ts';
import { PageQuery, pageOf } from '../platform/http/page.ts';
import type { TenantService } from './tenant.service.ts';
import type { UserService } from './user.service.ts';

export function tenantAccountRoutes(app: HttpServer, tenants: TenantService): void {
  app.get(
    '/v1/tenant',
    {
      config: { auth: 'authenticated' },
      schema: { tags: ['Tenant'], summary: 'The tenant of the credential', response: { 200: Tenant } },
    },
    async (request) => tenants.get(principalOf(request)),
  );

  app.patch(
    '/v1/tenant',
    {
      // Whoever may say who belongs to the tenant may say what it is called.
      config: { auth: 'users:write' },
      schema: {
        tags: ['Tenant'],
        summary: 'Rename the tenant',
        body: TenantChange,
        response: { 200: Tenant },
      },
    },
    async (request) => tenants.rename(principalOf(request), request.body.name),
  );

  app.get(
    '/v1/me',
    {
      config: { auth: 'authenticated' },
      schema: { tags: ['Tenant'], summary: 'Who the credential belongs to', response: { 200: Me } },
    },
    async (request) => tenants.me(principalOf(request)),
  );
}

export function userRoutes(app: HttpServer, users: UserService): void {
  const tags = ['Users'];

  app.post(
    '/v1/users',
    {
      config: { auth: 'users:write' },
      schema: { tags, summary: 'Add a user', body: NewUserBody, response: { 201: User } },
    },
    async (request, reply) => {
      const user = await users.create(principalOf(request), request.body);
      return reply.code(201).send(user);
    },
  );

  app.get(
    '/v1/users',
    {
      config: { auth: 'users:read' },
      schema: {
        tags,
        summary: 'List users, newest first',
        querystring: PageQuery,
        response: { 200: pageOf(User) },
      },
    },
    async (request) => users.list(principalOf(request), request.query),
  );

  app.get(
    '/v1/users/:userId',
    {
      config: { auth: 'users:read' },
      schema: { tags, summary: 'One user', params: UserParams, response: { 200: User } },
    },
    async (request) => users.get(principalOf(request), request.params.userId),
  );

  app.patch(
    '/v1/users/:userId',
    {
      config: { auth: 'users:write' },
      schema: {
        tags,
        summary: 'Change the role of a user, disable or enable it',
        description: 'A change ends all sessions of the user.',
        params: UserParams,
        body: UserChange,
        response: { 200: User },
      },
    },
    async (request) => users.change(principalOf(request), request.params.userId, request.body),
  );

  app.delete(
    '/v1/users/:userId',
    {
      config: { auth: 'users:write' },
      schema: {
        tags,
        summary: 'Delete a user',
        description:
          'Ends its sessions and frees its e-mail address. What it did keeps its name; API keys that it made go on.',
        params: UserParams,
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await users.remove(principalOf(request), request.params.userId);
      return reply.code(204).send(null);
    },
  );
}
