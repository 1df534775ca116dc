/** `acoer export`: what a run trained, as files for other programs, each compared with the run. */
import { type Command, Option } from 'commander';
import { badUsage } from '../base/errors';
import { createEngine } from '../engine/engine';
import {
  exactness,
  exportMerged,
  type MergeReport,
  openSource,
  proofProblem,
  STORED_TYPES,
  type StoredType,
} from '../export';
import { addDeviceOptions, type EngineFlags, integer, path } from './command';
import { showDownload } from './download';
import { interruptible } from './interrupt';
import { printJsonLine, printNote, printText } from './output';
import { alignTable } from './table';

interface ExportFlags extends Pick<EngineFlags, 'device' | 'threads'> {
  merge?: string;
  dtype: StoredType;
  step?: number;
  json?: boolean;
}

const reportText = (report: MergeReport): string =>
  [
    `${report.out}: step ${report.step}, ${report.type}; compared in ${report.comparedIn}`,
    ...alignTable(exactness(report)).map((line) => `  ${line}`),
  ].join('\n');

async function exportCommand(run: string, flags: ExportFlags): Promise<void> {
  const { merge: out, dtype: type, step, device, threads } = flags;
  if (out === undefined) throw badUsage('--merge OUT is required: the folder to write.');
  await interruptible(async (signal) => {
    const source = await openSource(run, step ?? null, showDownload(run, signal));
    await using engine = await createEngine({ device, threads });
    const report = await exportMerged(engine, source, {
      ...{ out, type, signal },
      onPhase: (phase) => printNote(phase),
    });
    if (flags.json === true) printJsonLine(report);
    else printText(reportText(report));
    const problem = proofProblem(report.proof);
    if (problem === null) return;
    const advice =
      type === 'float32' ? 'use the adapter itself' : 'use --dtype float32, or the adapter itself';
    printNote(`acoer: ${out} is not the run: ${problem}; ${advice}.`);
    process.exitCode = 1;
  });
}

export function define(command: Command): void {
  command
    .argument('<run>', 'folder of a run of acoer train or acoer sft')
    .option(
      '--merge <folder>',
      'write one model in Hugging Face layout, with the adapter added to its weights',
      path,
    )
    .addOption(
      new Option('--dtype <dtype>', 'number type of the weights')
        .choices(Object.keys(STORED_TYPES))
        .default('bfloat16'),
    )
    .option('--step <n>', 'weights of the checkpoint of this step (default: final/)', integer(0))
    .option('--json', 'print the figures as one line of JSON')
    .addHelpText(
      'after',
      `
The export is loaded again and asked the run's own prompts; how near it is to
the run is printed and written into its card. It ends with 1 if the run was
lost in rounding.
  acoer export RUN --merge OUT
  acoer export RUN --merge OUT --dtype float32 --step 40`,
    )
    .action(exportCommand);
  addDeviceOptions(command);
}
