import type { HttpServer } from '../platform/http/server.ts';
import { endpointSettingsRoutes } from './endpoint.routes.ts';
import { EndpointService } from './endpoint.service.ts';
import type { EndpointsDeps } from './endpoints-deps.ts';
import { secretRoutes } from './secret.routes.ts';
import { SecretService } from './secret.service.ts';
import { subscriptionRoutes } from './subscription.routes.ts';
import { SubscriptionService } from './subscription.service.ts';

/** Endpoints, their signing secrets and their subscriptions. Hand it to `endpointRoutes`. */
export class EndpointsService {
  readonly endpoints: EndpointService;
  readonly secrets: SecretService;
  readonly subscriptions: SubscriptionService;

  /** @throws AllowListError when `delivery.allowAddresses` has a bad entry */
  constructor(deps: EndpointsDeps) {
    this.endpoints = new EndpointService(deps);
    this.secrets = new SecretService(deps);
    this.subscriptions = new SubscriptionService(deps);
  }
}

/** Adds the routes of this feature. `registerAuthentication` comes first. */
export function endpointRoutes(app: HttpServer, service: EndpointsService): void {
  endpointSettingsRoutes(app, service.endpoints);
  secretRoutes(app, service.secrets);
  subscriptionRoutes(app, service.subscriptions);
}
