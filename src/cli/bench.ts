/** `acoer bench`: throughput on this machine, and how far it is from what the hardware allows. */
import { mkdtemp, rm } from 'node:fs/promises';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Argument, type Command, Option } from 'commander';
import { BENCHES, runBench, SHAPES, writeRandomWeights } from '../bench';
import type { BenchName, BenchResult, ShapeName, Workload } from '../bench';
import { badUsage } from '../base/errors';
import { gigabytes, percent } from '../base/text';
import {
  addEngineOptions,
  type EngineFlags,
  integer,
  kvCacheDtypeOption,
  numSpeculativeTokensOption,
} from './command';
import { interruptible } from './interrupt';
import { withModel } from './session';
import { formatTable } from './table';
import { printJsonLine, printNote, printText } from './output';
import { typeOf, withSpread } from './view/format';

type Sizes = Pick<Workload, 'prompts' | 'promptTokens' | 'group' | 'newTokens'>;

interface BenchFlags extends EngineFlags, Partial<Sizes>, Omit<Workload, keyof Sizes> {
  model?: string;
  shape?: ShapeName;
  shapeDir?: string;
  repeats: number;
  warmup: number;
  json?: boolean;
}

/** Default sizes: the embedded task's run, what a CPU manages in reasonable time, the paper's run. */
const SIZES: Record<'tiny' | 'cpu' | 'gpu', Sizes> = {
  tiny: { prompts: 8, promptTokens: 24, group: 4, newTokens: 128 },
  cpu: { prompts: 1, promptTokens: 64, group: 4, newTokens: 32 },
  gpu: { prompts: 1, promptTokens: 150, group: 16, newTokens: 1024 },
};
/** A model with fewer parameters than this counts as tiny. */
const TINY_PARAMETERS = 10e6;

function workloadOf(flags: BenchFlags, parameters: number, device: string): Workload {
  const sizes = parameters < TINY_PARAMETERS ? SIZES.tiny : device === 'cpu' ? SIZES.cpu : SIZES.gpu;
  return {
    prompts: flags.prompts ?? sizes.prompts,
    promptTokens: flags.promptTokens ?? sizes.promptTokens,
    group: flags.group ?? sizes.group,
    newTokens: flags.newTokens ?? sizes.newTokens,
    microBatchTokens: flags.microBatchTokens,
    loraRank: flags.loraRank,
    kvCacheDtype: flags.kvCacheDtype,
    numSpeculativeTokens: flags.numSpeculativeTokens,
    seed: flags.seed,
  };
}

/** Runs `work` on random weights, in `shapeDir`, which is kept and reused, or else in a temporary folder. */
async function withShape<T>(flags: BenchFlags, work: (directory: string) => Promise<T>): Promise<T> {
  const shape = SHAPES[flags.shape as ShapeName];
  const directory = flags.shapeDir ?? (await mkdtemp(join(tmpdir(), 'acoer-shape-')));
  try {
    if (!existsSync(join(directory, 'config.json'))) {
      printNote(`writing random weights of ${shape.name} to ${directory}`);
      await writeRandomWeights(directory, shape, flags.seed);
    }
    return await work(directory);
  } finally {
    if (flags.shapeDir === undefined) await rm(directory, { recursive: true, force: true });
  }
}

function withDirectory<T>(flags: BenchFlags, work: (directory: string) => Promise<T>): Promise<T> {
  if (flags.model !== undefined && flags.shape !== undefined) {
    throw badUsage('Give --model or --shape, not both.');
  }
  return flags.shape === undefined ? work(flags.model ?? 'tiny') : withShape(flags, work);
}

function phaseTable(result: BenchResult): string {
  const rows = Object.entries(result.phases).map(([name, phase]) => [
    name,
    withSpread(phase.seconds),
    withSpread(phase.tokensPerSecond),
    phase.floorSeconds.toPrecision(3),
    withSpread(phase.ratioToFloor),
  ]);
  return formatTable([['phase', 'seconds', 'tokens/s', 'floor s', 'ratio to floor'], ...rows]);
}

function decodingOf({ device, decodeFallback }: BenchResult): string[] {
  if (device.device === 'cpu' || decodeFallback === null) return [];
  return [
    decodeFallback === ''
      ? "decoding with acoer's CUDA kernels, a graph per token"
      : `decoding: ${decodeFallback}`,
  ];
}

function speculationOf({ speculation }: BenchResult): string[] {
  if (speculation === null) return [];
  const { proposed, accepted } = speculation;
  return [`speculation: ${percent(accepted / proposed, 0)} of ${proposed} proposed tokens were drawn`];
}

function describe(result: BenchResult): string {
  const { workload: load, device, model, ceilings, parts } = result;
  const { matmulUtilization: used, logprobGap: gap } = result;
  return [
    `${(model.parameters / 1e6).toFixed(1)} M parameters in ${typeOf(model)}, LoRA rank ${load.loraRank} (${(model.trained / 1e6).toFixed(2)} M)`,
    `${device.device}: ${device.name}, ${device.threads} threads`,
    ...decodingOf(result),
    `${load.prompts} prompts of ${load.promptTokens} tokens x ${load.group} completions of ${load.newTokens}`,
    `read bandwidth ${withSpread(ceilings.readBytesPerSecond, 1e-9)} GB/s, matmul rate ${withSpread(ceilings.matmulFlopsPerSecond, 1e-9)} GFLOP/s`,
    '',
    phaseTable(result),
    '',
    ...Object.entries(parts).map(([name, seconds]) => `${name} ${withSpread(seconds)} s`),
    ...speculationOf(result),
    ...(used === null
      ? []
      : [`training reaches ${percent(used, 0)} of the matmul rate, recomputation left out`]),
    ...(gap === null
      ? []
      : [
          `log-probs of trainer and sampler differ by ${gap.mean.toExponential(1)} on average, at most ${gap.max.toExponential(1)}`,
        ]),
    `memory: engine ${gigabytes(result.engineBytes, 2)}, process at most ${gigabytes(result.peakResidentBytes, 2)}`,
  ].join('\n');
}

async function bench(name: BenchName, flags: BenchFlags): Promise<void> {
  const result = await interruptible((signal) =>
    withDirectory(flags, (directory) =>
      withModel({ ...flags, model: directory }, signal, ({ engine, model }) => {
        const workload = workloadOf(flags, model.info.parameterCount, model.info.device);
        const { repeats, warmup } = flags;
        const calls = { signal, onProgress: printNote };
        return runBench({ engine, model, bench: name, workload, repeats, warmup, ...calls });
      }),
    ),
  );
  printText(describe(result));
  if (flags.json) printJsonLine(result);
}

export function define(command: Command): void {
  command
    .addArgument(new Argument('<what>', 'what to measure').choices(BENCHES))
    .option(
      '--model <model>',
      'tiny (default), a folder in Hugging Face layout, or org/name[@revision] on the hub',
    )
    .addOption(
      new Option('--shape <shape>', 'random weights at this shape instead of a model').choices(
        Object.keys(SHAPES),
      ),
    )
    .option('--shape-dir <folder>', 'where to keep the random weights for reuse')
    .option('--prompts <n>', 'prompts', integer(1))
    .option('--prompt-tokens <n>', 'tokens per prompt', integer(1))
    .option('--group <n>', 'completions per prompt', integer(2))
    .option('--new-tokens <n>', 'tokens per completion', integer(2))
    .option('--micro-batch-tokens <n>', 'tokens per forward and backward pass', integer(1), 16_384)
    .option('--lora-rank <n>', 'rank of the adapter', integer(1, 1024), 16)
    .addOption(kvCacheDtypeOption())
    .addOption(numSpeculativeTokensOption())
    .option('--repeats <n>', 'measured runs', integer(1, 1000), 3)
    .option('--warmup <n>', 'warm-up runs before those', integer(0, 1000), 1)
    .option('--seed <n>', 'seed of weights, prompts and samples', integer(0), 1)
    .option('--json', 'also print the figures as JSON on the last line')
    .addHelpText(
      'after',
      `
The floor is the larger of bytes over read bandwidth and FLOPs over matmul rate,
both measured between the runs. Figures are medians, with the range in brackets.`,
    )
    .action(bench);
  addEngineOptions(command);
}
