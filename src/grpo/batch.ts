/** A generated batch, ready to train on: rewards, advantages, masks and the log-probs the loss needs. */
import type { Group } from '../base/types';
import { abortable } from '../base/abortable';
import { batchAdvantages, type BatchAdvantages } from './advantages';
import { samplingSeed, type LoopPosition, type LoopState, type StepContext } from './context';
import { sampleTokens } from '../base/packing';
import { continueGroups, type Staleness } from './in-flight';
import { checkAdvantages } from './non-finite';
import { nextPrompts } from './prompts';
import { groupsPerBatch } from '../base/batches';
import { observeBatch, scoreBatch } from './rewards';
import { sampleGroups, type SampledShare } from './rollouts';
import { addLogprobs } from './score';
import {
  isGraded,
  isTruncated,
  unrewarded,
  type BatchRewards,
  type InFlightGroup,
  type Sample,
} from './sample';
import { withPressure } from './same-verdict';

export interface GenerationBatch {
  groups: Group[];
  samples: Sample[];
  rewards: BatchRewards;
  advantages: BatchAdvantages;
  /** What each rank has sampled. */
  shares: readonly SampledShare[];
  /** null: the weights that are trained have sampled all of it. */
  staleness: Staleness | null;
  /** Groups that later batches are made of. */
  inFlight: readonly InFlightGroup[];
  /** Unmasked completion tokens. */
  tokens: number;
  /** The loop's state after the batch; `step` is still the one before it. */
  state: LoopState;
  timesMs: { generate: number; reward: number; score: number };
}

type SampledBatch = Pick<GenerationBatch, 'groups' | 'shares' | 'staleness' | 'inFlight'> & {
  cursor: number;
};

async function sampleBatch(
  context: StepContext,
  { loop, inFlight }: Omit<LoopPosition, 'open'>,
): Promise<SampledBatch> {
  const { config, watch } = context;
  if (config.groupsInFlight !== null)
    return watch.phase('generate', () => continueGroups(context, loop, inFlight));
  const wanted = groupsPerBatch(config);
  const { prompts, cursor } = await watch.phase('generate', () => nextPrompts(context, loop.cursor, wanted));
  const seed = samplingSeed(config, loop.eased);
  const sampled = await watch.phase('generate', () => sampleGroups(context, prompts, seed));
  return { ...sampled, staleness: null, inFlight: [], cursor };
}

/**
 * Generates, grades and scores the batch that follows `position`, and advances the rewards' states by it.
 * @throws NonFiniteError when logits, an advantage or a log-prob is not finite
 */
export async function makeGenerationBatch(
  context: StepContext,
  position: Omit<LoopPosition, 'open'>,
): Promise<GenerationBatch> {
  const { config, watch, ranks } = context;
  const { loop: state } = position;
  const started = performance.now();
  const { groups, shares, staleness, inFlight, cursor } = await sampleBatch(context, position);
  const generated = performance.now();
  const maxLength = config.maxCompletionLength;
  const { formatWeight, rewardTimeoutMs: timeoutMs } = config;
  const settings = { step: state.step, maxLength, formatWeight, timeoutMs, watch, ranks };
  const before = state.rewardStates;
  // A user's reward may take long; ending the run does not wait for it.
  const reward = <T>(work: () => Promise<T>) =>
    watch.phase('reward', () => abortable(work(), context.signal));
  const rewards = await reward(() => scoreBatch(groups, context.rewards, before, settings));
  const graded = groups.filter(isGraded);
  const rewardStates =
    graded.length === 0
      ? before
      : await reward(() => observeBatch(graded, context.rewards, before, settings));
  const full = batchAdvantages(groups, rewards, config);
  const advantages = { ...full, values: withPressure(groups, full, state.eased.pressure) };
  const samples = makeSamples(context, groups, rewards, advantages);
  checkAdvantages(samples, { groups, rewards, pressure: state.eased.pressure });
  const rewarded = performance.now();
  await watch.phase('score', () => addLogprobs(context, samples));
  const tokens = samples.reduce((sum, s) => sum + (s.masked ? 0 : s.completionIds.length), 0);
  const numTokens = state.numTokens + samples.reduce((sum, sample) => sum + sampleTokens(sample), 0);
  const timesMs = {
    generate: generated - started,
    reward: rewarded - generated,
    score: performance.now() - rewarded,
  };
  const next = { ...state, cursor, numTokens, rewardStates };
  const sampled = { groups, shares, staleness, inFlight };
  return { ...sampled, samples, rewards, advantages, tokens, state: next, timesMs };
}

function makeSamples(
  { config }: StepContext,
  groups: readonly Group[],
  { rewards }: BatchRewards,
  advantages: BatchAdvantages,
): Sample[] {
  let next = 0;
  return groups.flatMap((group, g) => {
    const graded = isGraded(group);
    const place = { promptIndex: group.prompt.index, promptIds: group.prompt.ids };
    return group.rollouts.map((rollout): Sample => {
      const index = next++;
      const masked = !graded || (config.maskTruncatedCompletions && isTruncated(rollout));
      return {
        ...unrewarded(place, rollout),
        reward: rewards[index]!.total,
        advantage: advantages.values[index]!,
        masked,
        skipped:
          masked || (config.beta === 0 && (advantages.zeroVariance[g]! || !advantages.counted[index]!)),
      };
    });
  });
}
