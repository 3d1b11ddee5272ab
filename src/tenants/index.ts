export {
  createTenantsService,
  tenantRoutes,
  type TenantsDeps,
  type TenantsService,
} from './tenants.service.ts';
export { registerAuthentication, principalOf, type AccessRule } from './authentication.ts';
export type { Authenticator } from './authenticator.ts';
export { SCOPES, type Principal, type Role, type Scope } from './scopes.ts';
export { createTenant, loadTenantLimits, type TenantLimits } from './tenant.service.ts';
export { createApiKey, type ApiKeyOrder } from './api-key.service.ts';
export { createBootstrapToken, deleteExpiredTokens } from './token.service.ts';
