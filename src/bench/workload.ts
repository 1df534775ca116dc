/** The workload of a benchmark: random prompts and completions of fixed lengths, with random rewards. */
import { computeAdvantages } from '../grpo/advantages';
import { packByTokens, packSequences, runsByTokens, runTokens, type Tokens } from '../base/packing';
import type {
  CallOptions,
  GenerateRequest,
  GenerateResult,
  KvCacheDtype,
  Model,
  Policy,
} from '../engine/types';
import { streamSeed, uniformStream } from '../base/rng';

export interface Workload {
  prompts: number;
  promptTokens: number;
  /** Completions per prompt. */
  group: number;
  newTokens: number;
  microBatchTokens: number;
  loraRank: number;
  kvCacheDtype: KvCacheDtype;
  numSpeculativeTokens: number;
  seed: number;
}

export interface Sample extends Tokens {
  advantage: number;
  /** The sampler's log-probs; empty if nothing was sampled. */
  logprobs: Float64Array;
}

function randomIds(count: number, vocabSize: number, seed: bigint): Int32Array {
  const next = uniformStream(seed);
  return Int32Array.from({ length: count }, () => Math.floor(next() * vocabSize));
}

function promptIds(model: Model, load: Workload, prompt: number): Int32Array {
  return randomIds(load.promptTokens, model.info.vocabSize, streamSeed(load.seed, 'bench prompt', prompt));
}

/** A group for every prompt, all of exactly `newTokens` tokens: there is no stop token. */
export function rollout(
  model: Model,
  policy: Policy,
  load: Workload,
  options: CallOptions,
): Promise<GenerateResult> {
  const requests = Array.from({ length: load.prompts }, (_, prompt): GenerateRequest => ({
    promptIds: promptIds(model, load, prompt),
    numSamples: load.group,
    seed: streamSeed(load.seed, 'bench sample', prompt),
    maxNewTokens: load.newTokens,
    stopIds: new Int32Array(),
    policy,
  }));
  const { kvCacheDtype, numSpeculativeTokens } = load;
  return model.generate(requests, { ...options, maxSlots: slots(load), kvCacheDtype, numSpeculativeTokens });
}

/** Sequences decoded together. */
export const slots = (load: Workload): number => Math.min(64, load.prompts * load.group);

/** Advantages of random rewards: random weights solve nothing, and the cost is the same. */
function advantages(load: Workload): Float64Array {
  const next = uniformStream(streamSeed(load.seed, 'bench reward'));
  const rewards = Float64Array.from({ length: load.prompts * load.group }, next);
  return computeAdvantages(rewards, load.group, 'group', 1e-4).values;
}

export function samplesOf(model: Model, load: Workload, { sequences }: GenerateResult): Sample[] {
  const values = advantages(load);
  return sequences.map((sequence, i) => ({
    promptIds: promptIds(model, load, sequence.request),
    completionIds: sequence.ids,
    logprobs: sequence.logprobs,
    advantage: values[i]!,
  }));
}

/** Random samples instead of a rollout, for the training pass alone. */
export function randomSamples(model: Model, load: Workload): Sample[] {
  return Array.from(advantages(load), (advantage, i) => ({
    promptIds: promptIds(model, load, Math.floor(i / load.group)),
    completionIds: randomIds(
      load.newTokens,
      model.info.vocabSize,
      streamSeed(load.seed, 'bench completion', i),
    ),
    logprobs: new Float64Array(),
    advantage,
  }));
}

export interface TrainPass {
  /** Largest difference of a token's log-prob between trainer and sampler; NaN if nothing was sampled. */
  maxLogprobGap: number;
  meanLogprobGap: number;
}

/** Forward and backward over all samples; gradients accumulate in `policy`. */
export async function trainPass(
  policy: Policy,
  load: Workload,
  samples: readonly Sample[],
  options: CallOptions,
): Promise<TrainPass> {
  const runs = runsByTokens(samples);
  let largest = 0;
  let total = 0;
  let tokens = 0;
  for (const bin of packByTokens(runs.map(runTokens), load.microBatchTokens)) {
    const own = bin.map((i) => runs[i]!);
    const members = own.flat();
    const { logprobs } = await policy.forward(packSequences(members, own), options);
    // On-policy every ratio is 1: the slope of the grpo loss is -advantage / length / sequences.
    const slopes = members.flatMap(({ advantage, completionIds: { length } }) =>
      new Array<number>(length).fill(-advantage / length / samples.length),
    );
    await policy.backward(Float64Array.from(slopes), options);
    members
      .flatMap((s) => Array.from(s.logprobs))
      .forEach((sampled, t) => {
        const gap = Math.abs(sampled - logprobs[t]!);
        largest = Math.max(largest, gap);
        total += gap;
        tokens++;
      });
  }
  return { maxLogprobGap: tokens > 0 ? largest : NaN, meanLogprobGap: total / tokens };
}
