/** What the loop works with, and the state it carries from step to step. */
import type { Config } from '../config';
import type { Dataset } from '../data';
import type { Engine, Model, Policy } from '../engine/types';
import type { Grade } from '../judges';
import type { BoundLoss } from '../losses';
import type { Ranks } from '../ranks';
import type { WeightedReward } from '../rewards/types';
import type { Decoding, Sampler } from '../sampling';
import type { Tokenizer } from '../tokenizer';
import { AcoerError, errorMessage } from '../base/errors';
import { streamSeed } from '../base/rng';
import type { ExpectedLengths } from './expected-lengths';
import { NOTHING_LEARNT, type LearntLimits, type MemoryLimits } from './memory';
import type { DataOrder } from './order';
import type { InFlightGroup, OpenBatch, Sample } from './sample';
import type { Schedule } from './schedule';
import type { Watch } from './watch';

/** [T] log-probs of a sample; null: not known. */
export type KnownLogprobs = (sample: Sample) => Float64Array | null;

/** Looks at how far sampler and trainer are apart. */
export interface Drift {
  /**
   * @param samples trained on with the weights that sampled them
   * @param ofTrainer their log-probs by those weights, without dropout
   * @returns whether the trainer was wrong: what it made is to be made again
   */
  settle(
    context: Omit<ScoreContext, 'reference'>,
    samples: readonly Sample[],
    ofTrainer: KnownLogprobs,
  ): Promise<boolean>;
}

/** What a run has open while it trains. */
export interface LoopContext {
  config: Config;
  engine: Engine;
  model: Model;
  policy: Policy;
  /** What training started from, for the KL term and the first evaluation; null: the base model. */
  reference: Policy | null;
  tokenizer: Tokenizer;
  sampler: Sampler;
  dataset: Dataset;
  order: DataOrder;
  /** Maximum length of a prompt in tokens. */
  promptLimit: number;
  /** Rows of `dataset` whose prompts are longer. */
  skippedRows: Set<number>;
  /** Called as completions end, while others are still being decoded. */
  grade: Grade;
  rewards: readonly WeightedReward[];
  loss: BoundLoss;
  schedule: Schedule;
  /** Is told what is happening, so that a hang is noticed. */
  watch: Watch;
  /** How much of the work is done at a time. */
  memory: MemoryLimits;
  /** Tells wrong CUDA kernels by log-probs; absent: the engine does not sample, or there is no run. */
  drift?: Drift;
  /** The processes that share the work of a step. */
  ranks: Ranks;
  /** By which completions are dealt out to them. */
  lengths: ExpectedLengths;
}

/** How the caller of the loop ends a step and follows it. */
export interface LoopControl {
  signal?: AbortSignal;
  /** Called as completions of the running generation end, and a few times a second as tokens are added. */
  onDecoded?: (progress: Decoding & { done: number; total: number }) => void;
}

/** What a step works with. */
export interface StepContext extends LoopContext, LoopControl {}

/** The part of the context that scoring needs. */
export type ScoreContext = Pick<
  StepContext,
  'config' | 'model' | 'policy' | 'reference' | 'ranks' | 'signal' | 'watch' | 'memory'
>;

/** The part of the context that an update needs. */
export interface UpdateContext extends Pick<
  StepContext,
  'config' | 'model' | 'reference' | 'loss' | 'schedule' | 'ranks' | 'signal' | 'watch' | 'memory' | 'drift'
> {
  policy: Policy;
  /** Called once the update's gradient is complete, before the optimiser's step. */
  beforeStep?: () => Promise<void>;
}

/** What rollbacks have changed so far. */
export interface Eased {
  /** Rollbacks so far; each has its own stream of seeds. */
  rollbacks: number;
  /** Factor on the part of the advantages not due to verdict and format; 1 until the first rollback. */
  pressure: number;
}

/** What a checkpoint needs besides weights and optimiser; plain JSON. */
export interface LoopState {
  /** Optimiser updates finished. */
  step: number;
  /** Next position in the data order. */
  cursor: number;
  /** Prompt and completion tokens generated for training so far. */
  numTokens: number;
  /** The state of each reward, by its name. */
  rewardStates: Record<string, unknown>;
  eased: Eased;
  /** Steps in a row, up to this one, that were refused because a number was not finite. */
  refused: number;
  /** What fits into memory. Stored, because other limits round differently. */
  memory: LearntLimits;
}

/** Where a run is between two updates. */
export interface LoopPosition {
  loop: LoopState;
  /** The generated batch with updates left to make; null: the next step generates. */
  open: OpenBatch | null;
  /** With `groupsInFlight`: the groups that are not trained on yet, oldest first. */
  inFlight: readonly InFlightGroup[];
}

/** The state before the first step. */
export function initialState(rewards: readonly WeightedReward[], maxLength: number): LoopState {
  const rewardStates: Record<string, unknown> = {};
  for (const { reward } of rewards) {
    try {
      rewardStates[reward.name] = reward.initialState({ maxLength });
    } catch (cause) {
      const message = `Reward "${reward.name}" failed to make its first state: ${errorMessage(cause)}`;
      throw new AcoerError('REWARD_FAILED', message, { cause });
    }
  }
  return {
    step: 0,
    cursor: 0,
    numTokens: 0,
    rewardStates,
    eased: { rollbacks: 0, pressure: 1 },
    refused: 0,
    memory: NOTHING_LEARNT,
  };
}

/** The seed of sampling and dropout: the run's own, and another after each rollback. */
export function samplingSeed({ seed }: Config, { rollbacks }: Eased): number | bigint {
  return rollbacks === 0 ? seed : streamSeed(seed, 'rollback', rollbacks);
}
