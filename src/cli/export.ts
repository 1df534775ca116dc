/** `acoer export`: what a run trained, as files for other programs, each compared with the run. */
import { type Command, Option } from 'commander';
import { badUsage } from '../base/errors';
import { createExportingEngine } from '../engine/engine';
import {
  exactness,
  exportGguf,
  exportMerged,
  type ExportReport,
  type GgufFileType,
  openSource,
  otherBase,
  proofProblem,
  type StoredType,
} from '../export';
import { addDeviceOptions, type EngineFlags, integer, path } from './command';
import { showDownload } from './download';
import { interruptible } from './interrupt';
import { printJsonLine, printNote, printText } from './output';
import { alignTable } from './table';

/** Types of weights, and what GGUF calls them; the last one is only there. */
const TYPES = { float32: 'f32', bfloat16: 'bf16', float16: 'f16', q8_0: 'q8_0' } as const;
type TypeName = keyof typeof TYPES;

interface ExportFlags extends Pick<EngineFlags, 'device' | 'threads'> {
  merge?: string;
  gguf?: string;
  lora?: boolean;
  dtype?: TypeName;
  step?: number;
  json?: boolean;
}

type Target =
  | { kind: 'merge'; out: string; type: StoredType }
  | { kind: 'gguf'; out: string; type: GgufFileType | 'lora' };

/** @throws BAD_CONFIG for options that do not go together */
function targetOf({ merge, gguf, lora = false, dtype }: ExportFlags): Target {
  if ((merge === undefined) === (gguf === undefined)) {
    throw badUsage('Give one of --merge FOLDER and --gguf FILE: what to write.');
  }
  if (merge !== undefined) {
    if (lora) throw badUsage('--lora is for --gguf; the run has its adapter in final/ already.');
    if (dtype === 'q8_0')
      throw badUsage('--dtype q8_0 is for --gguf; a folder has float32, bfloat16 or float16.');
    return { kind: 'merge', out: merge, type: dtype ?? 'bfloat16' };
  }
  if (lora && dtype !== undefined) throw badUsage('--lora is always float32; remove --dtype.');
  return { kind: 'gguf', out: gguf!, type: lora ? 'lora' : TYPES[dtype ?? 'bfloat16'] };
}

function reportText(report: ExportReport): string {
  const others = 'others' in report ? report.others : [];
  const rows = [
    ...exactness(report),
    ...(others.length > 0 ? [['stored as, if rows are not of 32 numbers', others.join(', ')]] : []),
  ];
  return [
    `${report.out}: step ${report.step}, ${report.type}; compared in ${report.comparedIn}`,
    ...alignTable(rows).map((line) => `  ${line}`),
  ].join('\n');
}

async function exportCommand(run: string, flags: ExportFlags): Promise<void> {
  const { kind, ...target } = targetOf(flags);
  const { step, device, threads } = flags;
  await interruptible(async (signal) => {
    const source = await openSource(run, step ?? null, showDownload(run, signal));
    await using engine = await createExportingEngine({ device, threads });
    const options = { signal, onPhase: printNote };
    const report: ExportReport = await (kind === 'merge'
      ? exportMerged(engine, source, { ...(target as Extract<Target, { kind: 'merge' }>), ...options })
      : exportGguf(engine, source, { ...(target as Extract<Target, { kind: 'gguf' }>), ...options }));
    if (flags.json === true) printJsonLine(report);
    else printText(reportText(report));
    const other = otherBase(source);
    if (other !== null) printNote(`acoer: ${other}.`);
    const problem = proofProblem(report.proof);
    if (problem === null) return;
    const exact = report.type === 'float32' || report.type === 'f32' || report.type === 'lora';
    const advice = exact ? 'use the adapter itself' : 'use --dtype float32, or the adapter itself';
    printNote(`acoer: ${report.out} is not the run: ${problem}; ${advice}.`);
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
    .option('--gguf <file>', 'the same as a file for llama.cpp, with tokenizer and chat template', path)
    .option('--lora', 'with --gguf: write the adapter alone, to be used with a GGUF file of the base model')
    .addOption(
      new Option('--dtype <dtype>', 'number type of the weights (default: bfloat16)').choices(
        Object.keys(TYPES),
      ),
    )
    .option('--step <n>', 'weights of the checkpoint of this step (default: final/)', integer(0))
    .option('--json', 'print the figures as one line of JSON')
    .addHelpText(
      'after',
      `
What was written is loaded again and asked the run's own prompts; how near it
is to the run is printed, and ends the command with 1 if rounding lost the run.
  acoer export RUN --merge OUT
  acoer export RUN --gguf OUT.gguf --dtype q8_0
  acoer export RUN --gguf OUT.gguf --lora`,
    )
    .action(exportCommand);
  addDeviceOptions(command);
}
