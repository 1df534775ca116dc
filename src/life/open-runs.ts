/**
 * The runs that are open in this process. One that is never begun trains nothing, which looks like success; one whose
 * process ends, or that nobody refers to any more, gives its folder back.
 */
import { writeSync } from 'node:fs';
import { printableLine } from '../base/printable';

/** What is known of an open run without a reference to it, so that it can be collected. */
export interface OpenRun {
  readonly directory: string;
  /** Whether a step, or the result, has been asked for. */
  readonly begun: boolean;
  /** What the run does now: its phase and step. */
  doing(): string;
  /** Lets others open the folder. */
  release(): void;
  /** Ends the run and frees what it holds. */
  close(): Promise<void>;
}

const open = new Set<OpenRun>();

const neverBegun = ({ directory }: OpenRun): string =>
  `the run ${printableLine(directory)} was opened and never begun, so it has trained nothing: iterate over it, or await its result()`;

function say(text: string): void {
  try {
    writeSync(process.stderr.fd, `acoer: ${text}\n`);
  } catch {
    // There is no stderr to say it on.
  }
}

function atExit(): void {
  for (const run of open) {
    if (!run.begun) say(neverBegun(run));
    else say(`the run ${printableLine(run.directory)} did not end: the process ended ${run.doing()}`);
    run.release();
  }
}

const collected = new FinalizationRegistry<OpenRun>((run) => {
  if (!open.has(run)) return;
  if (!run.begun) process.emitWarning(neverBegun(run), { type: 'AcoerWarning' });
  closedRun(run);
  void run.close();
});

/** @param owner as long as it is referred to, the run can be begun or go on */
export function openedRun(owner: object, run: OpenRun): void {
  if (open.size === 0) process.on('exit', atExit);
  open.add(run);
  collected.register(owner, run, run);
}

export function closedRun(run: OpenRun): void {
  if (!open.delete(run)) return;
  collected.unregister(run);
  if (open.size === 0) process.off('exit', atExit);
}
