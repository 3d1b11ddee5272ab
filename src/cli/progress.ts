import { Presets, SingleBar } from 'cli-progress';

/** Progress of long work, on standard error so that standard output stays machine-readable. */
export interface Progress {
  update(done: number, note?: string): void;
  stop(): void;
}

const LINE_EVERY_MS = 2_000;

/** A bar on a terminal; elsewhere a line now and then. */
export function startProgress(label: string, total: number): Progress {
  return process.stderr.isTTY ? bar(label, total) : lines(label, total);
}

function bar(label: string, total: number): Progress {
  const single = new SingleBar(
    { format: `${label} {bar} {value}/{total} {note}`, stream: process.stderr, hideCursor: true },
    Presets.shades_classic,
  );
  single.start(total, 0, { note: '' });
  return {
    update: (done, note = '') => single.update(Math.min(done, total), { note }),
    stop: () => single.stop(),
  };
}

function lines(label: string, total: number): Progress {
  let lastMs = 0;
  return {
    update: (done, note = '') => {
      if (Date.now() - lastMs < LINE_EVERY_MS) return;
      lastMs = Date.now();
      process.stderr.write(`${label} ${done}/${total} ${note}\n`);
    },
    stop: () => undefined,
  };
}
