/** `acoer sweep`: several runs over one base, as processes, and their comparison. */
import { join } from 'node:path';
import type { Command } from 'commander';
import { isCancellation } from '../base/abortable';
import { AcoerError, badUsage } from '../base/errors';
import { printableLine } from '../base/printable';
import { duration, gigabytes } from '../base/text';
import { launchOf } from '../ranks';
import {
  chosenRuns,
  hoursLeft,
  isSweep,
  measuredSeconds,
  metricOf,
  readSweep,
  readSweepFile,
  runPath,
  runSweep,
  slotOf,
  sweepRuns,
  type Measured,
  type PlannedRun,
  type SweepEnd,
  type SweepFile,
  type SweepOptions,
} from '../sweep';
import { integer, path } from './command';
import { outliveOutput } from './ending';
import { interruptible, untilSecondSignal } from './interrupt';
import { printText } from './output';
import { sweepNeeds, type SweepNeeds } from './sweep-needs';
import { formatTable } from './table';
import { stateTable, SweepView } from './view/sweep';

interface SweepFlags {
  out?: string;
  resume?: boolean;
  plan?: boolean;
  only?: string[];
  parallel?: number;
}

export function define(command: Command): void {
  command
    .argument('<file>', 'YAML or JSON file of a sweep')
    .option('--out <folder>', 'folder of the sweep (default: sweeps/<name>)', path)
    .option('--resume', 'go on with what is left of a sweep, failed runs included')
    .option('--plan', 'print the runs, their memory and their time, and exit')
    .option('--only <name...>', 'only these entries of runs')
    .option(
      '--parallel <n>',
      "runs at a time (default: the file's, else as many as have a core and fit)",
      integer(1, 4096),
    )
    .addHelpText(
      'after',
      `
Trains every run of the file in a process of its own, into the folder's runs/,
and at the end a report that compares them. docs/sweep.md explains the
file. acoer watch FOLDER shows all runs while they train. Ctrl-C saves and ends
all of them.

Exit code: 0 when all runs are done (a collapse is a result), 1 when some have
failed, 75 when some wait for what is not there, 130 when it was stopped.`,
    )
    .action((file: string, flags: SweepFlags) => sweep(file, flags));
}

/** What is asked for, checked before anything is written. */
interface Asked {
  file: SweepFile;
  runs: PlannedRun[];
  /** Of `--only` and of the slot, in order. */
  chosen: PlannedRun[];
  options: Pick<SweepOptions, 'file' | 'runs' | 'kind' | 'path' | 'resume' | 'only' | 'slot'>;
}

function askedFor(name: string, flags: SweepFlags): Asked {
  if (launchOf(process.env) !== null)
    throw badUsage(
      'acoer sweep trains each run in one process, and this process is one of several: start it alone, or with ACOER_RANKS=off and a slot of its own in ACOER_SWEEP_SLOT, such as 2/8.',
    );
  const file = readSweepFile(name);
  const runs = sweepRuns(file);
  const options = {
    file,
    runs,
    kind: metricOf(file, runs),
    path: flags.out ?? join('sweeps', file.name),
    resume: flags.resume === true,
    only: flags.only ?? [],
    slot: slotOf(process.env),
  };
  return { file, runs, chosen: chosenRuns(options), options };
}

/** The runs that are not done, by what the sweep's folder says. */
function leftOf({ chosen, options: { path: folder } }: Asked): PlannedRun[] {
  const done = isSweep(folder) ? readSweep(folder).runs.filter(({ state }) => state === 'done') : [];
  const names = new Set(done.map((run) => run.folder));
  return chosen.filter((run) => !names.has(run.folder));
}

async function sweep(name: string, flags: SweepFlags): Promise<void> {
  const asked = askedFor(name, flags);
  if (flags.plan === true) await interruptible((signal) => printPlan(asked, flags, signal));
  else await makeRuns(name, asked, flags);
}

/** Seconds of a step of the runs that are done. */
async function measuredRuns({ options: { path: folder } }: Asked): Promise<Measured[]> {
  if (!isSweep(folder)) return [];
  const measured: Measured[] = [];
  for (const run of readSweep(folder).runs.filter(({ state }) => state === 'done')) {
    const stepSeconds = await measuredSeconds(runPath(folder, run));
    if (stepSeconds !== null) measured.push({ method: run.method, stepSeconds });
  }
  return measured;
}

function memoryLine({ together, bytesAtOnce, device }: SweepNeeds): string {
  const { parallel, threads } = together;
  const how = `${parallel} at a time, ${threads} thread${threads === 1 ? '' : 's'} each`;
  const bytes =
    bytesAtOnce === null ? 'unknown, because the model is not on this machine' : gigabytes(bytesAtOnce);
  return `memory  ${bytes} of ${gigabytes(device.freeBytes)} available, with ${how}`;
}

async function printPlan(asked: Asked, { parallel }: SweepFlags, signal: AbortSignal): Promise<void> {
  const { file, chosen } = asked;
  const left = leftOf(asked);
  const head = `sweep   ${file.name}: ${chosen.length} runs, ${left.length} left`;
  if (left.length === 0) {
    printText(head);
    return;
  }
  const found = await sweepNeeds(file, left, parallel ?? file.parallel, true, signal);
  const measured = await measuredRuns(asked);
  const of = left.map((run, i) => ({ run, needs: found.needs[i]! }));
  const hours = hoursLeft(of, measured, found.together.parallel);
  const by = measured.length === 0 ? 'predicted' : `by the steps of ${measured.length} that are done`;
  const rows = of.map(({ run, needs }) => {
    const own = hoursLeft([{ run, needs }], measured, 1);
    return [
      run.folder,
      String(run.config.maxSteps),
      needs === null ? '?' : gigabytes(needs.bytes),
      own === null ? '?' : duration(3_600_000 * own),
    ];
  });
  const time =
    hours === null ? 'unknown' : `${hours.toFixed(2)} hours (${duration(3_600_000 * hours)}), ${by}`;
  const table = formatTable([['run', 'steps', 'memory', 'time'], ...rows]);
  printText([head, memoryLine(found), `time    ${time}`, '', table].join('\n'));
}

/** Of a sweep in which nothing is left to do. */
const NOTHING_LEFT = { parallel: 1, threads: 1 };

async function makeRuns(name: string, asked: Asked, flags: SweepFlags): Promise<void> {
  const { file, chosen, options } = asked;
  const controller = new AbortController();
  outliveOutput();
  let view: SweepView | null = null;
  const onStop = (): void => {
    view?.print('stopping: the runs save and end; press Ctrl-C again to stop at once');
    controller.abort();
  };
  await untilSecondSignal(onStop, async () => {
    const { signal } = controller;
    const left = leftOf(asked);
    const parallel = flags.parallel ?? file.parallel;
    const found = left.length === 0 ? null : await sweepNeeds(file, left, parallel, false, signal);
    const together = found?.together ?? NOTHING_LEFT;
    const maxSteps = new Map(chosen.map(({ folder, config }) => [folder, config.maxSteps]));
    const others = process.stdout.isTTY ? [process.stdout] : [];
    view = new SweepView(process.stderr, options.path, left.length, maxSteps, together.parallel, others);
    if (found !== null) view.print(memoryLine(found));
    const command = { program: process.execPath, words: [...process.execArgv, process.argv[1]!] };
    try {
      const end = await runSweep({ ...options, together, command, signal, onNews: view.onNews });
      view.close();
      report(name, options.path, end, maxSteps);
    } finally {
      view.close();
    }
  }).catch((error: unknown) => {
    if (!controller.signal.aborted || !isCancellation(error)) throw error;
    throw new AcoerError('INTERRUPTED', 'interrupted', { cause: error });
  });
}

function report(name: string, folder: string, end: SweepEnd, maxSteps: ReadonlyMap<string, number>): void {
  process.exitCode = end.exitCode;
  const shown = printableLine(folder);
  const done = end.own.filter(({ state }) => state === 'done').length;
  const again = `acoer sweep ${printableLine(name)} --out ${shown} --resume`;
  const last = {
    0: `All ${done} runs are done: ${shown}.`,
    1: `${done} of ${end.own.length} runs are done; what a failed run said is in its log under ${shown}/runs. To try again: ${again}`,
    75: `${done} of ${end.own.length} runs are done; the others wait for what was not there. To go on: ${again}`,
    130: `Stopped with ${done} of ${end.own.length} runs done. To go on: ${again}`,
  }[end.exitCode];
  printText(`${stateTable(folder, end.own, maxSteps)}\n\n${last}`);
}
