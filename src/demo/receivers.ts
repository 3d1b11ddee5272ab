import type { BehaviourInput } from '../simulator/index.ts';

/** A receiver of the demo: how it behaves, and what must become of its deliveries. */
export interface DemoReceiver {
  readonly name: string;
  readonly text: string;
  readonly behaviour: BehaviourInput;
  /** `succeeded` in the end, or `failed` because it refuses for good. */
  readonly ends: 'succeeded' | 'failed';
  readonly retry: {
    readonly maxAttempts: number;
    readonly baseMs: number;
    readonly factor: number;
    readonly capMs: number;
  };
}

const patient = { maxAttempts: 20, baseMs: 100, factor: 2, capMs: 1_000 };

export const demoReceivers: readonly DemoReceiver[] = [
  { name: 'healthy', text: 'answers 200 at once', behaviour: {}, ends: 'succeeded', retry: patient },
  {
    name: 'flaky',
    text: 'answers 500 to 30 %',
    behaviour: { flaky: 0.3 },
    ends: 'succeeded',
    retry: patient,
  },
  {
    name: 'limited',
    text: 'every third time 429 with Retry-After: 1',
    behaviour: { status: '429,200,200', loop: true, retryAfter: '1' },
    ends: 'succeeded',
    retry: patient,
  },
  {
    name: 'slow',
    text: 'answers after 200 ms',
    behaviour: { latencyMs: 200 },
    ends: 'succeeded',
    retry: patient,
  },
  {
    name: 'broken',
    text: 'answers 500 until it is repaired, then is replayed',
    behaviour: { status: '500' },
    ends: 'succeeded',
    retry: { maxAttempts: 3, baseMs: 100, factor: 2, capMs: 400 },
  },
  { name: 'rejecting', text: 'answers 400', behaviour: { status: '400' }, ends: 'failed', retry: patient },
];
