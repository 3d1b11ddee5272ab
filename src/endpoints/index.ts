export { type SealingState, requireSealingKey, sealingState } from './canary.ts';
export { EndpointDirectory } from './directory.ts';
export { FilteredEvent } from './filtered-event.ts';
export {
  countHeldBack,
  giveProbeBack,
  type HealthChange,
  type HealthRules,
  type ObservedHealth,
  observeHealth,
  takeProbe,
} from './health.sql.ts';
export { disableEndpoint } from './directory.sql.ts';
export { endpointExists, findDeletedEndpointIds } from './endpoint.sql.ts';
export type { EndpointsDeps } from './endpoints-deps.ts';
export { EndpointsService, endpointRoutes } from './endpoints.service.ts';
export { lockNotices, type NoticeRow, removeNotices } from './notices.sql.ts';
export { isEventType, MAX_EVENT_TYPE_LENGTH } from './patterns.ts';
export { type ResealResult, countEndpointRows, resealAll, sealPlainHeaders } from './reseal.ts';
export { type JudgeElsewhere, type Route, type RoutingTable, type SubscriptionRow } from './routing.ts';
export { SecretBox } from './secret-box.ts';
export type { DeliveryTarget, EndpointState, SigningSecret } from './target.ts';
