/**
 * Throughput and its ratio to the floor. The floor is the larger of what the work must read over the read
 * bandwidth and what it must multiply over the matmul rate, both measured on this machine between the repeats
 * of the same run.
 */
import type { CallOptions, Engine, Model, Policy } from '../engine/types';
import { streamSeed } from '../base/rng';
import {
  BYTES_PER_ELEMENT,
  floorSeconds,
  rolloutFloorSeconds,
  sharesPrompts,
  trainWork,
  type Ceilings,
  type TrainSequence,
} from '../plan/cost';
import { maximum, median, minimum, sum } from '../base/statistics';
import { randomSamples, rollout, samplesOf, slots, trainPass, type Workload } from './workload';

export { SHAPES, type ShapeName } from '../plan/shapes';
export { writeRandomWeights } from './random-weights';
export type { Workload } from './workload';

/** Statistics over the repeats; the spread is part of every figure. */
export interface Spread {
  median: number;
  min: number;
  max: number;
}

const spreadOf = (values: readonly number[]): Spread => ({
  median: median(values),
  min: minimum(values),
  max: maximum(values),
});

const mapSpread = ({ median, min, max }: Spread, f: (value: number) => number): Spread => ({
  median: f(median),
  min: f(min),
  max: f(max),
});

export const BENCHES = ['rollout', 'train', 'step'] as const;
export type BenchName = (typeof BENCHES)[number];

export interface BenchOptions {
  engine: Engine;
  model: Model;
  bench: BenchName;
  workload: Workload;
  repeats: number;
  /** Warm-up runs before those measured. */
  warmup: number;
  signal?: AbortSignal;
  onProgress?: (message: string) => void;
}

/** One phase of the work. */
export interface PhaseResult {
  seconds: Spread;
  /** Tokens per second: new tokens in a rollout, prompt and completion tokens in training. */
  tokensPerSecond: Spread;
  floorSeconds: number;
  /** Measured time over the floor; 1 is what the machine allows. */
  ratioToFloor: Spread;
}

export interface BenchResult {
  bench: BenchName;
  device: { device: string; name: string; threads: number };
  /** Why a GPU decoded without acoer's CUDA kernels or graphs; empty if it did not, null if nothing was decoded. */
  decodeFallback: string | null;
  model: { parameters: number; dtype: string; quantization: string | null; trained: number };
  workload: Workload & { slots: number; repeats: number; warmup: number };
  ceilings: { readBytesPerSecond: Spread; matmulFlopsPerSecond: Spread };
  /** The phases that ran; `step` is their sum. */
  phases: Partial<Record<'rollout' | 'train' | 'step', PhaseResult>>;
  /** Seconds of individual parts of a step. */
  parts: Partial<Record<'prefill' | 'decode' | 'optimizer', Spread>>;
  /** Tokens that speculation proposed in all repeats, and those of them that were drawn; null: none were. */
  speculation: { proposed: number; accepted: number } | null;
  /** FLOPs per second, recomputed ones left out, over the matmul rate; null without a training pass. */
  matmulUtilization: number | null;
  /** Difference of a token's log-prob between trainer and sampler; null unless both ran. */
  logprobGap: { mean: number; max: number } | null;
  peakResidentBytes: number;
  engineBytes: number;
}

/** One repeat; times are in seconds, 0 for what did not run. */
const NOTHING_MEASURED = {
  rollout: 0,
  prefill: 0,
  decode: 0,
  train: 0,
  optimizer: 0,
  maxLogprobGap: NaN,
  meanLogprobGap: NaN,
  proposed: 0,
  accepted: 0,
  fallback: null as string | null,
};
type Repeat = typeof NOTHING_MEASURED & {
  /** Measured before and after the work. */
  ceilings: Ceilings[];
};

const wholeOf = ({ rollout, train, optimizer }: Repeat): number => rollout + train + optimizer;

async function timed<T>(work: () => Promise<T>): Promise<[T, number]> {
  const started = performance.now();
  const result = await work();
  return [result, (performance.now() - started) / 1000];
}

async function oneRepeat(options: BenchOptions, policy: Policy): Promise<Repeat> {
  const { engine, model, bench, workload } = options;
  const call: CallOptions = options.signal ? { signal: options.signal } : {};
  const measure = (): Promise<Ceilings> => engine.measureCeilings(model.info.dtype, call);
  const repeat: Repeat = { ...NOTHING_MEASURED, ceilings: [await measure()] };
  let samples = bench === 'train' ? randomSamples(model, workload) : [];
  if (bench !== 'train') {
    const [generated, seconds] = await timed(() => rollout(model, policy, workload, call));
    repeat.rollout = seconds;
    repeat.prefill = generated.stats.prefillMs / 1000;
    repeat.decode = generated.stats.decodeMs / 1000;
    repeat.proposed = generated.stats.proposedTokens;
    repeat.accepted = generated.stats.acceptedTokens;
    repeat.fallback = generated.stats.fallback;
    samples = samplesOf(model, workload, generated);
  }
  if (bench !== 'rollout') {
    const [gaps, seconds] = await timed(() => trainPass(policy, workload, samples, call));
    Object.assign(repeat, gaps, { train: seconds });
    if (bench === 'step') {
      // Such a small learning rate leaves the next repeat the same work.
      [, repeat.optimizer] = await timed(() => policy.step({ learningRate: 1e-9, maxGradNorm: 1 }));
    } else {
      await policy.zeroGradients();
    }
  }
  repeat.ceilings.push(await measure());
  return repeat;
}

function sequencesOf({ engine, model, workload }: BenchOptions): TrainSequence[] {
  const { prompts, promptTokens, group, newTokens } = workload;
  const tokens = promptTokens + newTokens;
  const kind = engine.deviceInfo.device === 'cpu' ? 'cpu' : 'cuda';
  const shares = sharesPrompts({ kind, dtype: model.info.dtype, longest: tokens, dropout: 0 });
  return Array.from({ length: prompts * group }, (_, i) => ({
    tokens,
    completionTokens: newTokens,
    sharedTokens: shares && i % group > 0 ? promptTokens - 1 : 0,
  }));
}

function ceilingsOf(repeats: readonly Repeat[]): BenchResult['ceilings'] {
  const all = repeats.flatMap((r) => r.ceilings);
  return {
    readBytesPerSecond: spreadOf(all.map((c) => c.readBytesPerSecond)),
    matmulFlopsPerSecond: spreadOf(all.map((c) => c.matmulFlopsPerSecond)),
  };
}

function phase(seconds: readonly number[], tokens: number, floor: number): PhaseResult {
  const spread = spreadOf(seconds);
  const inverse = mapSpread(spread, (value) => tokens / value);
  return {
    seconds: spread,
    // The slowest repeat has the fewest tokens per second.
    tokensPerSecond: { median: inverse.median, min: inverse.max, max: inverse.min },
    floorSeconds: floor,
    ratioToFloor: mapSpread(spread, (value) => value / floor),
  };
}

/** A training pass whose activations are all kept. */
const trainingWork = (options: BenchOptions) =>
  trainWork(options.model.info, sequencesOf(options), {
    bytesPerElement: BYTES_PER_ELEMENT[options.model.info.dtype],
    loraRank: options.workload.loraRank,
    recompute: false,
  });

function phasesOf(options: BenchOptions, repeats: readonly Repeat[], medians: Ceilings) {
  const { bench, workload, model } = options;
  const { loraRank, kvCacheDtype } = workload;
  const bytesPerElement = BYTES_PER_ELEMENT[model.info.dtype];
  const sequences = workload.prompts * workload.group;
  const newTokens = sequences * workload.newTokens;
  const trainTokens = sequences * (workload.promptTokens + workload.newTokens);
  const rolloutFloor = rolloutFloorSeconds(
    model.info,
    { ...workload, samplesPerPrompt: workload.group, slots: slots(workload) },
    medians,
    { bytesPerElement, loraRank, kvCacheDtype },
  );
  const trainFloor = floorSeconds(trainingWork(options), medians);
  const phases: BenchResult['phases'] = {};
  const timeOf = (seconds: (repeat: Repeat) => number, tokens: number, floor: number) =>
    phase(repeats.map(seconds), tokens, floor);
  if (bench !== 'train') phases.rollout = timeOf((r) => r.rollout, newTokens, rolloutFloor);
  if (bench !== 'rollout') phases.train = timeOf((r) => r.train, trainTokens, trainFloor);
  if (bench === 'step') {
    phases.step = timeOf(wholeOf, newTokens, rolloutFloor + trainFloor);
  }
  return phases;
}

function partsOf(bench: BenchName, repeats: readonly Repeat[]): BenchResult['parts'] {
  const part = (name: 'prefill' | 'decode' | 'optimizer'): Spread => spreadOf(repeats.map((r) => r[name]));
  return {
    ...(bench !== 'train' && { prefill: part('prefill'), decode: part('decode') }),
    ...(bench === 'step' && { optimizer: part('optimizer') }),
  };
}

function speculationOf(repeats: readonly Repeat[]): BenchResult['speculation'] {
  const [proposed, accepted] = [
    sum(repeats.map((repeat) => repeat.proposed)),
    sum(repeats.map((repeat) => repeat.accepted)),
  ];
  return proposed === 0 ? null : { proposed, accepted };
}

async function resultOf(
  options: BenchOptions,
  policy: Policy,
  repeats: readonly Repeat[],
): Promise<BenchResult> {
  const { engine, model, bench, workload, warmup } = options;
  const ceilings = ceilingsOf(repeats);
  const medians: Ceilings = {
    readBytesPerSecond: ceilings.readBytesPerSecond.median,
    matmulFlopsPerSecond: ceilings.matmulFlopsPerSecond.median,
  };
  const phases = phasesOf(options, repeats, medians);
  const { device, name, threads } = engine.deviceInfo;
  const { peakResidentBytes, engineBytes } = await engine.memory();
  const max = maximum(repeats.map((r) => r.maxLogprobGap));
  const mean = median(repeats.map((r) => r.meanLogprobGap));
  return {
    bench,
    device: { device, name, threads },
    decodeFallback: repeats[0]!.fallback,
    model: {
      parameters: model.info.parameterCount,
      dtype: model.info.dtype,
      quantization: model.info.quantization,
      trained: policy.info.parameterCount,
    },
    workload: { ...workload, slots: slots(workload), repeats: repeats.length, warmup },
    ceilings,
    phases,
    parts: partsOf(bench, repeats),
    speculation: speculationOf(repeats),
    matmulUtilization:
      phases.train === undefined
        ? null
        : trainingWork(options).flops / phases.train.seconds.median / medians.matmulFlopsPerSecond,
    logprobGap: bench === 'step' ? { mean, max } : null,
    peakResidentBytes,
    engineBytes,
  };
}

/** Runs a benchmark on a loaded model, with a fresh LoRA policy on all seven linears. */
export async function runBench(options: BenchOptions): Promise<BenchResult> {
  const { model, workload, repeats, warmup, onProgress } = options;
  await using policy = await model.createPolicy({
    kind: 'lora',
    rank: workload.loraRank,
    alpha: 2 * workload.loraRank,
    seed: streamSeed(workload.seed, 'bench lora'),
  });
  const counted: Repeat[] = [];
  for (let run = 0; run < warmup + repeats; run++) {
    const repeat = await oneRepeat(options, policy);
    const label = run < warmup ? `warm-up ${run + 1}/${warmup}` : `run ${run - warmup + 1}/${repeats}`;
    onProgress?.(`${label}: ${wholeOf(repeat).toFixed(2)} s`);
    if (run >= warmup) counted.push(repeat);
  }
  return resultOf(options, policy, counted);
}
