/** What the commands share that start or resume a run. */
import { parseAssignments, readConfigFile } from '../config';
import { badUsage } from '../base/errors';
import { latestRun } from '../run';

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
