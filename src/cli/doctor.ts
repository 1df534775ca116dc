/** `acoer doctor`: what was found on this machine, what is missing, and the command that fixes it. */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Command } from 'commander';
import { printableJson } from '../base/printable';
import { printText } from './output';

/** The parts of `Report` used here; scripts/lib/doctor.mjs must run before anything is compiled. */
interface Report {
  problems: string[];
}

interface DoctorModules {
  examine: () => Report;
  reportText: (report: Report) => string;
}

async function loadModules(): Promise<DoctorModules> {
  const folder = join(__dirname, '..', '..', 'scripts', 'lib');
  const load = (name: string): Promise<unknown> => import(pathToFileURL(join(folder, name)).href);
  const [doctor, text] = await Promise.all([load('doctor.mjs'), load('doctor-text.mjs')]);
  return { ...(doctor as Pick<DoctorModules, 'examine'>), ...(text as Pick<DoctorModules, 'reportText'>) };
}

export function define(command: Command): void {
  command
    .option('--json', 'print one JSON object instead of a table')
    .addHelpText('after', '\nExit code: 0 when acoer can run here, 1 when something is missing.')
    .action(async (flags: { json?: boolean }) => {
      const { examine, reportText } = await loadModules();
      const report = examine();
      printText(flags.json ? printableJson(report, 2) : reportText(report));
      if (report.problems.length > 0) process.exitCode = 1;
    });
}
