/** One generated batch made ready to train on: rewards, advantages, masks and the log-probs the loss needs. */
import type { GenerateStats } from '../engine/types';
import type { Group, Prompt, Reward, Rollout, StepMetrics } from '../types';
import { batchAdvantages, type BatchAdvantages } from './combine';
import { samplingSeed, type LoopContext, type LoopState } from './context';
import { packSequences, sampleTokens, splitPerToken, type Tokens } from './microbatch';
import { nextPrompts } from './prompts';
import { observeBatch, scoreBatch, type BatchRewards } from './rewards';
import { isGraded, sampleGroups } from './rollouts';
import { withPressure } from './same-verdict';

/** A completion with everything its loss needs: what a checkpoint keeps of a batch that is not used up. */
export interface UpdateSample extends Tokens {
  rollout: Pick<Rollout, 'sample' | 'logprobs' | 'entropies'> & { prompt: Pick<Prompt, 'index'> };
  reward: Pick<Reward, 'total'>;
  advantage: number;
  /** Truncated, with `maskTruncatedCompletions`, or not graded: not in the loss, nor in token counts. */
  masked: boolean;
  /** Its loss and gradient are exactly 0, so forward and backward are left out. */
  skipped: boolean;
  /** Of the policy before the first update on this batch; null: on-policy, the current ones. */
  oldLogprobs: Float64Array | null;
  /** Of the base model; only with beta > 0. */
  refLogprobs: Float64Array | null;
}

export interface Sample extends UpdateSample {
  rollout: Rollout;
  reward: Reward;
}

/** A batch that updates are being made from. */
export interface OpenBatch {
  samples: readonly UpdateSample[];
  /** Unmasked completion tokens. */
  tokens: number;
  /** Of the generation; every update's line carries them. */
  metrics: StepMetrics;
  updatesDone: number;
}

export interface GenerationBatch {
  groups: Group[];
  samples: Sample[];
  rewards: BatchRewards;
  advantages: BatchAdvantages;
  stats: GenerateStats;
  /** Unmasked completion tokens. */
  tokens: number;
  /** The loop's state once the batch is made; `step` is still that of before it. */
  state: LoopState;
  timesMs: { generate: number; reward: number; score: number };
}

/** A completion cut off by the length limit: its last token is no stop token. */
export const isTruncated = (rollout: Rollout) => rollout.finish !== 'stop';

/** Updates made from one generated batch. */
export function updatesPerGeneration(context: LoopContext): number {
  return context.config.stepsPerGeneration * context.config.numIterations;
}

/** A user's reward may take its time; whoever ends the run does not wait for it. */
async function abortable<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  let onAbort = () => undefined as void;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason as Error);
  });
  signal.addEventListener('abort', onAbort);
  if (signal.aborted) onAbort();
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
    // Nobody waits any more: a late failure is nobody's.
    work.catch(() => undefined);
  }
}

/** Generates, grades and scores the batch that follows `state`, and advances the rewards' states by it. */
export async function makeGenerationBatch(context: LoopContext, state: LoopState): Promise<GenerationBatch> {
  const { config } = context;
  const started = performance.now();
  const wanted = config.promptsPerStep * config.stepsPerGeneration;
  const { prompts, cursor } = nextPrompts(context, state.cursor, wanted);
  const { groups, stats } = await sampleGroups(context, prompts, samplingSeed(config, state.eased));
  const generated = performance.now();
  const maxLength = config.maxCompletionLength;
  const { formatWeight, rewardTimeoutMs: timeoutMs } = config;
  const settings = { step: state.step, maxLength, formatWeight, timeoutMs };
  const before = state.rewardStates;
  const rewards = await abortable(scoreBatch(groups, context.rewards, before, settings), context.signal);
  const graded = groups.filter(isGraded);
  const rewardStates =
    graded.length === 0
      ? before
      : await abortable(observeBatch(graded, context.rewards, before, settings), context.signal);
  const full = batchAdvantages(groups, rewards, config);
  const advantages = { ...full, values: withPressure(groups, full, state.eased.pressure) };
  const samples = makeSamples(context, groups, rewards, advantages);
  const rewarded = performance.now();
  await addLogprobs(context, samples);
  const tokens = samples.reduce((sum, s) => sum + (s.masked ? 0 : s.completionIds.length), 0);
  const numTokens = state.numTokens + samples.reduce((sum, sample) => sum + sampleTokens(sample), 0);
  const timesMs = {
    generate: generated - started,
    reward: rewarded - generated,
    score: performance.now() - rewarded,
  };
  const next = { ...state, cursor, numTokens, rewardStates };
  return { groups, samples, rewards, advantages, stats, tokens, state: next, timesMs };
}

function makeSamples(
  { config }: LoopContext,
  groups: readonly Group[],
  { rewards }: BatchRewards,
  advantages: BatchAdvantages,
): Sample[] {
  return groups.flatMap((group, g) => {
    const graded = isGraded(group);
    return group.rollouts.map((rollout, s): Sample => {
      const index = g * config.numGenerations + s;
      const masked = !graded || (config.maskTruncatedCompletions && isTruncated(rollout));
      return {
        promptIds: group.prompt.ids,
        completionIds: rollout.ids,
        rollout,
        reward: rewards[index]!,
        advantage: advantages.values[index]!,
        masked,
        skipped: masked || (config.beta === 0 && (advantages.zeroVariance[g]! || advantages.dropped[index]!)),
        oldLogprobs: null,
        refLogprobs: null,
      };
    });
  });
}

/** Old log-probs when the policy moves while the batch is used; the base's when the KL term asks for them. */
async function addLogprobs(context: LoopContext, samples: readonly Sample[]): Promise<void> {
  const { config, model, policy, signal } = context;
  const { temperature } = config;
  const used = samples.filter((sample) => !sample.skipped);
  const options = { temperature, ...(signal && { signal }) };
  const scoreAll = (store: (sample: Sample, logprobs: Float64Array) => void, of: typeof policy | null) =>
    context.memory.inBins('scoring', used, async (members) => {
      const { logprobs } = await model.score(packSequences(members), { ...options, policy: of });
      splitPerToken(logprobs, members).forEach((part, i) => store(members[i]!, part));
    });
  if (updatesPerGeneration(context) > 1) {
    await scoreAll((sample, logprobs) => (sample.oldLogprobs = logprobs), policy);
  }
  if (config.beta !== 0) await scoreAll((sample, logprobs) => (sample.refLogprobs = logprobs), null);
}
