export { countMessages, insertMessages, removeMessagesBefore } from './outbox.sql.ts';
export { OutboxPublisher, type PublishedReport } from './publisher.ts';
export type { DueDelivery } from '../transport/port.ts';
