/** `acoer doctor`: what was found on this machine, what is missing, and the command that fixes it. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Command } from 'commander';
import { badUsage } from '../base/errors';
import { printableJson } from '../base/printable';
import { addNprocOption, runRanks } from './nproc';
import type * as RankReports from './rank-report';
import { printText } from './output';

/** The parts of `Report` used here; scripts/lib/doctor.mjs must run before anything is compiled. */
interface Report {
  problems: string[];
}

interface DoctorModules {
  examine: () => Report;
  reportText: (report: Report) => string;
}

interface DoctorFlags {
  json?: boolean;
  ranks?: boolean;
  nproc?: number;
}

async function loadModules(): Promise<DoctorModules> {
  const folder = join(__dirname, '..', '..', 'scripts', 'lib');
  const load = (name: string): Promise<unknown> => import(pathToFileURL(join(folder, name)).href);
  const [doctor, text] = await Promise.all([load('doctor.mjs'), load('doctor-text.mjs')]);
  return { ...(doctor as Pick<DoctorModules, 'examine'>), ...(text as Pick<DoctorModules, 'reportText'>) };
}

/** Only when asked: the rest of this command needs as little as can be. */
function loadRankReports(): typeof RankReports {
  // eslint-disable-next-line @typescript-eslint/no-require-imports -- loaded on demand
  return require('./rank-report') as typeof RankReports;
}

async function doctor(flags: DoctorFlags): Promise<void> {
  const { ranks = false, json = false, nproc } = flags;
  if (!ranks && nproc !== undefined) throw badUsage('--nproc goes with --ranks.');
  if (ranks && nproc !== undefined && nproc > 1) {
    process.exitCode = await runRanks(nproc);
    return;
  }
  if (ranks) return loadRankReports().printRankReport(flags);
  const { examine, reportText } = await loadModules();
  const report = examine();
  printText(json ? printableJson(report, 2) : reportText(report));
  if (report.problems.length > 0) process.exitCode = 1;
}

export function define(command: Command): void {
  command
    .option('--ranks', 'measure instead how fast several processes exchange data (docs/ranks.md)')
    .option('--json', 'print one JSON object instead of a table')
    .addHelpText('after', '\nExit code: 0 when acoer can run here, 1 when something is missing.')
    .action(doctor);
  addNprocOption(command, 'with --ranks: measure');
}
