/** What the commands share that start or resume a run. */
import { parseAssignments, readConfigFile } from '../config';
import { badUsage } from '../base/errors';
import { latestRun } from '../run';
import { outliveOutput } from './ending';
import { endIfStuck, untilSecondSignal } from './interrupt';

export interface RunFlags {
  set: string[];
  resume?: string | true;
  trust?: boolean;
  out?: string;
  json?: boolean;
  describe?: boolean;
  ignorePlan?: boolean;
}

/** Layers of settings, later ones over earlier ones: the file, then options named after settings, then --set. */
export const layersOf = (
  file: string | undefined,
  flags: RunFlags,
  settings: readonly string[],
): object[] => [
  ...(file === undefined ? [] : [readConfigFile(file)]),
  Object.fromEntries(Object.entries(flags).filter(([name]) => settings.includes(name))),
  parseAssignments(flags.set),
];

/** The folder to resume: the one given, --out, or the latest; undefined for a new run. @throws BAD_CONFIG */
export function resumedRun({ resume, trust, out }: RunFlags): string | undefined {
  if (resume === undefined && trust === true) {
    throw badUsage('--trust goes with --resume.');
  }
  return resume === true ? (out ?? latestRun('runs')) : resume;
}

/**
 * Runs `work`. The first signal stops it within seconds, the second at once, files intact.
 * @param work gets a signal that aborts until it calls `hold`; from then on the run that it holds is stopped
 */
export function stoppable<T>(
  onStop: (text: string) => void,
  work: (signal: AbortSignal, hold: (run: { stop(): void }) => void) => Promise<T>,
): Promise<T> {
  const loading = new AbortController();
  let stop = (): void => loading.abort();
  const onFirst = (): void => {
    onStop('stopping; press Ctrl-C again to stop at once');
    stop();
  };
  outliveOutput();
  return untilSecondSignal(onFirst, () =>
    work(loading.signal, (run) => (stop = () => run.stop())).catch((error: unknown) => {
      endIfStuck(error);
      throw error;
    }),
  );
}
