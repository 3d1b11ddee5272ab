export { Acceptor, type Accepted, type AcceptResult } from './acceptor.ts';
export { deleteExpiredKeys } from './event.sql.ts';
export { eventRoutes } from './events.routes.ts';
export { EventsService, type IngestLimits } from './events.service.ts';
