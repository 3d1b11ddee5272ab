/** Runs in a worker thread: evaluates filters that may take long, under a deadline. Started by filter-pool.ts. */
import { Script } from 'node:vm';
import { compileFilter, ExpressionError, type Filter } from './filter.ts';
import { payloadOf } from './payload.ts';

export interface FilterTask {
  readonly event: { readonly id: string; readonly type: string };
  /** Null when the payload is not looked into. */
  readonly payload: string | null;
  readonly sources: readonly string[];
  /** For all of them together, in ms. */
  readonly deadlineMs: number;
}

/** True or false, or why it cannot be said. */
export type Verdict = boolean | { readonly error: string };

export interface FilterReport {
  readonly verdicts: Verdict[];
  readonly durationMs: number;
}

const MAX_COMPILED = 2_000;
const compiled = new Map<string, Filter>();

/** Node ends a script that takes too long between two steps of it, without ending the thread. */
const script = new Script('relayopsJudge()');
const thread = globalThis as { relayopsJudge?: () => void };

export default function judge({ event, payload, sources, deadlineMs }: FilterTask): FilterReport {
  const started = performance.now();
  const verdicts: Verdict[] = [];
  thread.relayopsJudge = () => {
    const scope = { event, payload: payloadOf(payload) };
    for (const source of sources) verdicts.push(judgeOne(source, scope));
  };
  try {
    script.runInThisContext({ timeout: deadlineMs });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    // It was left in the middle of something.
    compiled.delete(sources[verdicts.length]!);
    const late = { error: `the filters of this event took longer than ${deadlineMs} ms` };
    while (verdicts.length < sources.length) verdicts.push(late);
  }
  return { verdicts, durationMs: performance.now() - started };
}

// The first evaluation of a thread costs tens of milliseconds of compiling. No event's deadline pays for that.
judge({
  event: { id: '', type: '' },
  payload: '{"list":[1,2],"text":"a"}',
  sources: ['payload.list.exists(x, x == 2) && payload.text.contains("a") && size(payload.list) > 1'],
  deadlineMs: 10_000,
});

function judgeOne(source: string, scope: Parameters<Filter['matches']>[0]): Verdict {
  try {
    let filter = compiled.get(source);
    if (filter === undefined) {
      filter = compileFilter(source);
      if (compiled.size >= MAX_COMPILED) compiled.clear();
      compiled.set(source, filter);
    }
    return filter.matches(scope);
  } catch (error) {
    if (error instanceof ExpressionError) return { error: error.message };
    throw error;
  }
}
