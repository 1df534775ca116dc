/** `acoer show`: prints completions of a run to read. */
import { Option, type Command } from 'commander';
import { resolveConfig } from '../config';
import { readRunDirectory, type RunDirectory } from '../run';
import { integer } from './command';
import { selections, type Selection, type Wanted } from './completions/select';
import { problemCourseLines, tableLines, type ShowStyle } from './completions/text';
import { colorsOf, isTerminal } from './view/colors';
import { KEEP_TO_READ } from './view/cut';
import { printJsonLine } from './output';

interface ShowFlags extends Wanted {
  wrong?: true;
  count?: number;
  json?: true;
  full?: true;
}

/** Problems of a table that are printed unless asked otherwise. */
const DEFAULT_PROBLEMS = 8;
/** Wider lines are hard to read. */
const MAX_WIDTH = 120;

export function define(command: Command): void {
  command
    .argument('<run>', 'folder of the run, which may be in progress')
    .option('--step <n>', 'completions of this step (default: the newest)', integer(0))
    .option('--problem <id>', 'this problem at all steps that have it, oldest first')
    .option('--sample <k>', 'only this sample of each problem, from 0', integer(0))
    .option('--correct', 'only correct completions')
    .addOption(new Option('--wrong', 'only wrong completions').conflicts('correct'))
    .option('--evaluation', 'answers of evaluations; step 0 is the base model')
    .option('-n, --count <n>', `problems to print (default: ${DEFAULT_PROBLEMS}), or steps`, integer(1))
    .option('--json', 'print every matching completion as a line of JSON')
    .option('--full', 'do not shorten long thinking')
    .addHelpText(
      'after',
      `
Each problem is shown with a correct and a wrong completion, the one of median
length each; --problem with --step shows all of them.
  acoer show RUN | less
  acoer show RUN --step 100 --wrong
  acoer show RUN --problem ID          how the answers to it changed
  acoer show RUN --evaluation --step 0`,
    )
    .action(show);
}

/** The run's setting, or the default for a run that is older than it. */
function completionsStepsOf(run: RunDirectory): number {
  const { completionsSteps } = run.trainSettings() as { completionsSteps?: number };
  return completionsSteps ?? resolveConfig([]).completionsSteps;
}

function wantedOf({ correct, wrong, ...flags }: ShowFlags): Wanted {
  return { ...flags, ...((correct ?? wrong) && { correct: correct === true }) };
}

function styleOf(run: RunDirectory, flags: ShowFlags): ShowStyle {
  const terminal = isTerminal(process.stdout);
  const most = flags.count ?? (flags.problem === undefined ? DEFAULT_PROBLEMS : Infinity);
  return {
    run: run.path,
    template: run.promptTemplate(),
    most,
    colors: colorsOf(process.stdout),
    width: terminal ? Math.min(process.stdout.columns, MAX_WIDTH) : Infinity,
    thinking: flags.full === true ? null : KEEP_TO_READ,
    answer: null,
  };
}

async function show(path: string, flags: ShowFlags): Promise<void> {
  const run = readRunDirectory(path);
  const style = styleOf(run, flags);
  const found = selections(run, completionsStepsOf(run), wantedOf(flags));
  if (flags.json === true) {
    await printJson(found, flags.count ?? Infinity);
  } else if (flags.problem === undefined) {
    let first = true;
    for await (const selection of found) {
      print([...(first ? [] : ['']), ...tableLines(selection, style)]);
      first = false;
    }
  } else {
    const all: Selection[] = [];
    for await (const selection of found) all.push(selection);
    print(problemCourseLines(all, style, flags.step !== undefined));
  }
}

async function printJson(found: AsyncIterable<Selection>, most: number): Promise<void> {
  let printed = 0;
  for await (const { table, rows } of found) {
    for (const row of rows.slice(0, most - printed)) printJsonLine({ table: table.kind, ...row });
    printed += rows.length;
    if (printed >= most) return;
  }
}

const print = (lines: readonly string[]) => void process.stdout.write(`${lines.join('\n')}\n`);
