export { type BacklogSample, sampleBacklog, sampleTenants } from './backlog.sql.ts';
export {
  claimDeliveries,
  claimWork,
  findNextDue,
  findOpen,
  sweepFromFloors,
  sweepLanes,
  type ClaimedRow,
  type ClaimWant,
  type Lane,
} from './claim.sql.ts';
export { deliveryRoutes } from './delivery.routes.ts';
export { DeliveryService } from './delivery.service.ts';
export { Janitor, preparePartitions, type JanitorTask } from './janitor.ts';
export { ReplayRunner } from './replay-runner.ts';
export { ReplayService } from './replay.service.ts';
export { DeliveryWorker, type AttemptReport } from './worker.ts';
