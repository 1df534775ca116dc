/** What travels between the phases of a step: the same record live, in a checkpoint and in a dump. */
import type { Prompt, Reward, Rollout, StepMetrics } from '../base/types';
import type { Tokens } from '../base/packing';

export interface Sample extends Tokens {
  /** Position of its prompt in the data order. */
  promptIndex: number;
  /** Number of the completion within its group. */
  sample: number;
  /** [T] the sampler's. */
  sampledLogprobs: Float64Array;
  /** [T] the sampler's; null: it does not know them. */
  entropies: Float64Array | null;
  /** The weighted sum of all rewards. */
  reward: number;
  advantage: number;
  /** Truncated, with `maskTruncatedCompletions`, or not graded: not in the loss, nor in token counts. */
  masked: boolean;
  /** Its loss and gradient are exactly 0, so forward and backward are skipped. */
  skipped: boolean;
  /** [T] of the policy before the first update on this batch; null: on-policy, use the current ones. */
  oldLogprobs: Float64Array | null;
  /** [T] of the base model; only with beta > 0. */
  refLogprobs: Float64Array | null;
}

/** What a sample has of its prompt. */
export type SampledPrompt = Pick<Sample, 'promptIndex' | 'promptIds'>;

/** A sampled completion that has no reward yet. */
export const unrewarded = (
  { promptIndex, promptIds }: SampledPrompt,
  { sample, ids, logprobs, entropies }: Pick<Rollout, 'sample' | 'ids' | 'logprobs' | 'entropies'>,
): Sample => ({
  promptIndex,
  sample,
  promptIds,
  completionIds: ids,
  sampledLogprobs: logprobs,
  entropies,
  reward: 0,
  advantage: 0,
  masked: false,
  skipped: false,
  oldLogprobs: null,
  refLogprobs: null,
});

/** A batch that updates are being made from. */
export interface OpenBatch {
  samples: readonly Sample[];
  /** Unmasked completion tokens. */
  tokens: number;
  /** The generation's metrics; the line of every update made from it repeats them. */
  metrics: StepMetrics;
  updatesDone: number;
}

/** What a generated batch was rewarded with. */
export interface BatchRewards {
  /** Per completion, groups end to end. */
  rewards: Reward[];
  /** Unweighted values per reward function (`format` among them), in the same order. */
  perFunction: Record<string, Float64Array>;
  /** Weight of each reward function, by the same names. */
  weights: Record<string, number>;
  /** By reward: the means of the numbers that it noted of completions; absent where none did. */
  metrics?: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

export const sampleName = ({ promptIndex, sample }: Pick<Sample, 'promptIndex' | 'sample'>) =>
  `sample ${sample} of prompt ${promptIndex}`;

/** The completion's name in messages. */
export const completionName = ({ index, problem }: Prompt, sample: number) =>
  `sample ${sample} of prompt ${index} (problem ${problem.id})`;

/** What the advantages of a group depend on besides its rewards. */
export interface GroupOutline {
  rollouts: readonly Pick<Rollout, 'totalTokens' | 'verdict' | 'format'>[];
}

/**
 * A reference that cannot be read says nothing: its group is left out of the loss, the accuracy, the batch's means and
 * deviations and the rewards' states, and is counted in `accuracy/gold_unparseable`.
 */
export const isGraded = ({ rollouts }: GroupOutline) =>
  rollouts.every(({ verdict }) => verdict.status !== 'gold-unparseable');

/** Cut off by the length limit: its last token is not a stop token. */
export const isTruncated = ({ finish }: Pick<Rollout, 'finish'>) => finish !== 'stop';

/** A completion as far as it is sampled. */
export interface InFlightSample {
  ids: Int32Array;
  /** [T] the sampler's. */
  logprobs: Float64Array;
  /** [T] the sampler's. */
  entropies: Float64Array;
  /** [T] the policy that made each token, as its number of updates. */
  versions: Int32Array;
  /** `partial`: it goes on in the next generation. */
  finish: 'stop' | 'length' | 'partial';
}

/** A group whose completions are being sampled, or that waits to be trained on. */
export interface InFlightGroup {
  /** Position of its prompt in the data order. */
  promptIndex: number;
  /** The number of updates when it began: no token is older. */
  begun: number;
  /** Its place in the order of completion; null: not all of its completions have ended. */
  completed: number | null;
  /** By number; one that has no tokens has not begun. */
  samples: readonly InFlightSample[];
}
