/** `acoer monitor`: runs the collapse monitor over a recorded run. */
import type { Command } from 'commander';
import { watchRecorded } from '../train';
import { collect, integer } from './command';
import { healthLine } from './view/health';
import { printJsonLine, printNote, printText } from './output';

interface MonitorFlags {
  groups?: number;
  set: string[];
  json?: boolean;
}

export function define(command: Command): void {
  command
    .argument('<run>', 'folder of a run, or a file with one JSON object of metrics per line')
    .option('--groups <n>', "prompts per batch (default: the run's; required for a file)", integer(1))
    .option(
      '--set <monitor.x=y>',
      'override a setting of the monitor, e.g. --set monitor.collapseZ=5 (repeatable)',
      collect,
      [],
    )
    .option('--json', 'print each change as a JSON object with step, from, to and reason')
    .addHelpText(
      'after',
      `
Prints a line for every change of the monitor's state, as the run itself does;
docs/collapse.md explains the states. Metrics missing from a file are estimated
or left out, with a note on stderr.`,
    )
    .action(runMonitor);
}

function runMonitor(path: string, { groups, set, json }: MonitorFlags): void {
  const { changes, notices, lines } = watchRecorded(path, { groups, set });
  for (const notice of notices) printNote(notice);
  for (const change of changes) {
    if (json === true) printJsonLine(change);
    else printText(healthLine(change));
  }
  if (changes.length === 0) {
    printNote(`Healthy throughout all ${lines} lines.`);
  }
}
