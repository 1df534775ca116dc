/** `acoer monitor`: runs the collapse monitor over a recorded run. */
import type { Command } from 'commander';
import { badInput } from '../base/errors';
import { watchRecorded, type WatchOptions } from '../train';
import { integer, repeatable } from './command';
import { healthLine } from './view/format';
import { printJsonLine, printNote, printText } from './output';

interface MonitorFlags extends WatchOptions {
  json?: boolean;
}

export function define(command: Command): void {
  command
    .argument(
      '<run>',
      'folder of a run, or a file with one JSON object of metrics per line (or trainer_state.json)',
    )
    .option('--groups <n>', "prompts per batch (default: the run's; required for a file)", integer(1))
    .option('--accuracy <name>', 'metric of the file that is the share of right answers')
    .option('--thinking <name>', 'metric of the file that is the mean number of thinking tokens')
    .addOption(
      repeatable('--set <monitor.x=y>', 'override a setting of the monitor, e.g. --set monitor.collapseZ=5'),
    )
    .option('--json', 'print each change as a JSON object with step, from, to and reason')
    .addHelpText(
      'after',
      `
Prints a line for every change of the monitor's state, as the run itself does;
docs/collapse.md explains the states. Metrics missing from a file are estimated
or left out, with a note on stderr. TRL's names are known: its accuracy reward
is taken as accuracy, and the length of completions stands in for that of
thinking.
What cannot be judged at all is an error.`,
    )
    .action(runMonitor);
}

const MISSING = { accuracy: 'thinking is not in it', thinking: 'accuracy is not in it' };

function runMonitor(path: string, { json, ...options }: MonitorFlags): void {
  const { changes, notices, lines, only, unjudged } = watchRecorded(path, options);
  for (const notice of notices) printNote(notice);
  for (const change of changes) {
    if (json === true) printJsonLine(change);
    else printText(healthLine(change));
  }
  if (unjudged !== null) throw badInput(unjudged);
  if (changes.length === 0) {
    const seen = only === null ? 'Healthy' : `Judged by ${only} only, ${MISSING[only]}: nothing found`;
    printNote(`${seen} throughout all ${lines} lines.`);
  }
}
