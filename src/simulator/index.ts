export { startSimulator } from './simulator.ts';
export type { SimulatedReceiver, Simulator, SimulatorOptions } from './simulator.ts';
export type { Behaviour, BehaviourInput } from './behaviour.ts';
export type { ReceiverSettings } from './control.ts';
export type { LedgerRow } from './delivery-ledger.ts';
export type { ReceiverSummary } from './receiver.ts';
export type { ShownRequest } from './request-log.ts';
