/** `acoer monitor`: a recorded run shown to the collapse monitor again. */
import type { Command } from 'commander';
import { watchRecorded } from '../train';
import { collect, integer } from './command';
import { healthLine } from './view/health';

interface MonitorFlags {
  groups?: number;
  set: string[];
  json?: boolean;
}

export function define(command: Command): void {
  command
    .argument('<run>', "a run's folder, or a file with a JSON object of metrics a line")
    .option('--groups <n>', 'prompts of a batch (default: as the run had it; a file needs it)', integer(1))
    .option(
      '--set <monitor.x=y>',
      'a setting of the monitor, e.g. --set monitor.collapseZ=5 (repeatable)',
      collect,
      [],
    )
    .option('--json', 'print each change as a JSON object: step, from, to, reason')
    .addHelpText(
      'after',
      `
Prints a line for every change of the monitor's state, as the run itself does;
docs/collapse.md says what the states mean. What is missing in a file is
estimated or left out, and said on stderr.`,
    )
    .action(runMonitor);
}

function runMonitor(path: string, { groups, set, json }: MonitorFlags): void {
  const { changes, notices, lines } = watchRecorded(path, { groups, set });
  for (const notice of notices) process.stderr.write(`${notice}\n`);
  for (const change of changes) {
    process.stdout.write(`${json === true ? JSON.stringify(change) : healthLine(change)}\n`);
  }
  if (changes.length === 0) {
    process.stderr.write(`Healthy from the first of ${lines} lines to the last.\n`);
  }
}
