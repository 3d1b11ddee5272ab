export { Acceptor, type Accepted, type AcceptResult } from './acceptor.ts';
export { Admission, type AdmissionSample } from './admission.ts';
export { deleteExpiredKeys } from './event.sql.ts';
export { OperationalEvents } from './operational-events.ts';
export { eventRoutes } from './events.routes.ts';
export { EventsService, type IngestLimits } from './events.service.ts';
