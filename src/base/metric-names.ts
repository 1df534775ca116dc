/**
 * Every number that a line of metrics.jsonl may contain, in the order of `docs/metrics.md`, which is
 * generated from this file. Code that writes or reads metrics uses `KnownMetrics`, so an unknown name does
 * not compile.
 */

export interface MetricInfo {
  /** "fraction" means 0..1. */
  readonly unit: string;
  /** One line. */
  readonly meaning: string;
  /** TRL's GRPOTrainer (or the Trainer below it) logs the same number under the same name. */
  readonly trl?: true;
  /** When a line has it; always if absent. */
  readonly when?: string;
}

const FRACTION = 'fraction';
const TOKENS = 'tokens';
const SECONDS = 'seconds';
const BYTES = 'bytes';

const ofStep = {
  step: { unit: 'steps', meaning: 'Number of the update, from 1.', trl: true },
  epoch: { unit: 'epochs', meaning: 'Prompts drawn so far divided by the size of the data set.', trl: true },
  num_tokens: { unit: TOKENS, meaning: 'Prompt and completion tokens of the whole run so far.', trl: true },
} as const;

const ofUpdate = {
  learning_rate: { unit: 'rate', meaning: 'Learning rate of this update.', trl: true },
  loss: { unit: 'loss', meaning: 'The loss that was differentiated, including the KL term.', trl: true },
  grad_norm: {
    unit: 'norm',
    meaning: 'Norm of the gradient before it is clipped to maxGradNorm.',
    trl: true,
  },
  entropy: {
    unit: 'nats per token',
    meaning: 'Mean entropy of the next-token distribution over the tokens in the loss.',
    trl: true,
  },
  kl: {
    unit: 'nats per token',
    meaning: "Mean estimate of the policy's divergence from the base model.",
    trl: true,
    when: '`beta` above 0',
  },
  update_applied: { unit: '0 or 1', meaning: '0: the step was skipped because a number was not finite.' },
  micro_batches: {
    unit: 'count',
    meaning: 'Number of forward and backward passes that the update was split into.',
  },
  skipped_sequences: {
    unit: 'count',
    meaning: 'Completions whose gradient is exactly zero, so they were left out of the passes.',
  },
} as const;

const CLIPPING = 'all loss types except `cispo`, `sapo` and `vespo`';

/** Written by the loss in use. */
const ofLoss = {
  'clip_ratio/low_mean': {
    unit: FRACTION,
    meaning: 'Tokens (sequences at sequence level) clipped from below.',
    trl: true,
    when: CLIPPING,
  },
  'clip_ratio/low_min': {
    unit: FRACTION,
    meaning: 'The same for the completion with the fewest.',
    trl: true,
    when: CLIPPING,
  },
  'clip_ratio/high_mean': {
    unit: FRACTION,
    meaning: 'Tokens (sequences) clipped from above.',
    trl: true,
    when: CLIPPING,
  },
  'clip_ratio/high_max': {
    unit: FRACTION,
    meaning: 'The same for the completion with the most.',
    trl: true,
    when: CLIPPING,
  },
  'clip_ratio/region_mean': {
    unit: FRACTION,
    meaning: 'Tokens (sequences) clipped on either side.',
    trl: true,
    when: CLIPPING,
  },
  cispo_clip_ratio: {
    unit: FRACTION,
    meaning: 'Tokens whose importance weight is capped.',
    trl: true,
    when: '`lossType: cispo`',
  },
  'vespo/phi_seq_mean': {
    unit: 'weight',
    meaning: 'Mean weight of a sequence in vespo.',
    trl: true,
    when: '`lossType: vespo`',
  },
} as const;

const ofSampler = {
  'sampling/importance_sampling_ratio/min': {
    unit: 'ratio',
    meaning: 'Smallest weight of the importance correction, after its bounds.',
    trl: true,
    when: '`importanceSamplingCorrection`',
  },
  'sampling/importance_sampling_ratio/mean': {
    unit: 'ratio',
    meaning: 'Mean of these weights over the trained tokens (completions, in sequence modes).',
    trl: true,
    when: '`importanceSamplingCorrection`',
  },
  'sampling/importance_sampling_ratio/max': {
    unit: 'ratio',
    meaning: 'Largest of these weights.',
    trl: true,
    when: '`importanceSamplingCorrection`',
  },
  'sampling/sampling_logp_difference/mean': {
    unit: 'nats',
    meaning: "Mean |difference| between the sampler's and the trainer's log-probs of the trained tokens.",
    trl: true,
    when: 'the log-probs of the sampling weights were computed without dropout',
  },
  'sampling/sampling_logp_difference/max': {
    unit: 'nats',
    meaning: 'Largest of these differences.',
    trl: true,
    when: 'as for its mean',
  },
} as const;

const ofCompletions = {
  'completions/mean_length': { unit: TOKENS, meaning: 'Mean length of the completions.', trl: true },
  'completions/min_length': { unit: TOKENS, meaning: 'Shortest completion.', trl: true },
  'completions/max_length': { unit: TOKENS, meaning: 'Longest completion.', trl: true },
  'completions/clipped_ratio': {
    unit: FRACTION,
    meaning: 'Completions cut off at maxCompletionLength.',
    trl: true,
  },
  'completions/mean_terminated_length': {
    unit: TOKENS,
    meaning: 'Mean length of the completions that were not cut off; 0 if there are none.',
    trl: true,
  },
  'completions/min_terminated_length': { unit: TOKENS, meaning: 'Shortest of these.', trl: true },
  'completions/max_terminated_length': { unit: TOKENS, meaning: 'Longest of these.', trl: true },
  'completions/answer_length': {
    unit: TOKENS,
    meaning: 'Mean number of tokens outside every <think> block; 0 for a completion without one.',
  },
} as const;

const ofReward = {
  reward: { unit: 'reward', meaning: 'Mean of the weighted sum of all rewards.', trl: true },
  reward_std: { unit: 'reward', meaning: 'Standard deviation of that sum over the batch.', trl: true },
  frac_reward_zero_std: {
    unit: FRACTION,
    meaning: 'Groups whose rewards are all equal, which have no gradient.',
    trl: true,
  },
  'advantages/min': { unit: 'advantage', meaning: 'Smallest advantage of the batch.' },
  'advantages/max': { unit: 'advantage', meaning: 'Largest advantage of the batch.' },
  'advantages/same_verdict_share': {
    unit: FRACTION,
    meaning:
      'Share of the squared advantage that separates completions with the same verdict: the pressure on length.',
  },
  'advantages/brevity': {
    unit: FRACTION,
    meaning: 'Pairs of correct answers to a problem in which the shorter has the higher advantage.',
    when: 'a group has two correct answers of different lengths',
  },
} as const;

const ofAccuracy = {
  'accuracy/mean': {
    unit: FRACTION,
    meaning: 'Correct completions, in groups whose reference can be parsed.',
  },
  'accuracy/groups_all_correct': { unit: FRACTION, meaning: 'Groups in which every completion is correct.' },
  'accuracy/groups_all_wrong': { unit: FRACTION, meaning: 'Groups in which no completion is correct.' },
  'accuracy/group_std': {
    unit: FRACTION,
    meaning: 'Mean over groups of the standard deviation of correct (1) and wrong (0).',
    when: 'a reference of the batch can be read',
  },
  'accuracy/format': {
    unit: FRACTION,
    meaning: 'Completions with a closed <think>...</think> and a \\boxed{}.',
  },
  'accuracy/unparseable': { unit: FRACTION, meaning: 'Completions without an answer that can be parsed.' },
  'accuracy/timeout': { unit: FRACTION, meaning: 'Completions whose comparison took too long.' },
  'accuracy/gold_unparseable': { unit: FRACTION, meaning: 'Groups whose reference cannot be parsed.' },
} as const;

const ofThinking = {
  'thinking/mean': { unit: TOKENS, meaning: 'Mean length of the first thinking block.' },
  'thinking/later_blocks_mean': {
    unit: TOKENS,
    meaning: 'Mean number of tokens in thinking blocks after the first.',
  },
  'thinking/max': { unit: TOKENS, meaning: 'Longest thinking block.' },
  'thinking/closed_ratio': { unit: FRACTION, meaning: 'Completions whose thinking is closed.' },
  'thinking/correct_mean': {
    unit: TOKENS,
    meaning: 'Mean thinking length of correct completions.',
    when: 'there is one',
  },
  'thinking/wrong_mean': {
    unit: TOKENS,
    meaning: 'Mean thinking length of wrong completions.',
    when: 'there is one',
  },
  'thinking/group_std': {
    unit: TOKENS,
    meaning: 'Mean over groups of the standard deviation of the thinking length.',
    when: 'a reference of the batch can be read',
  },
  'thinking/correct_group_std': {
    unit: TOKENS,
    meaning: 'The same over the correct completions of a group.',
    when: 'a group has two of them',
  },
  'thinking/wrong_group_std': {
    unit: TOKENS,
    meaning: 'The same over the wrong completions of a group.',
    when: 'a group has two of them',
  },
} as const;

const ofRewardStates = {
  'acoer/alpha': { unit: 'weight', meaning: 'Strength of the efficiency bonus.', when: 'reward `acoer`' },
  'acoer/budget': {
    unit: TOKENS,
    meaning: 'Budget below which a correct answer earns a bonus.',
    when: 'reward `acoer`',
  },
  'acoer/ema_accuracy': {
    unit: FRACTION,
    meaning: "The controller's moving average of accuracy.",
    when: 'reward `acoer`',
  },
  'acoer/ema_correct_length': {
    unit: TOKENS,
    meaning: "The controller's moving average of the length of correct answers.",
    when: 'reward `acoer`, after the first correct answer',
  },
  'a-dlp/lambda': { unit: 'weight', meaning: 'Strength of the length penalty.', when: 'reward `a-dlp`' },
  'hapo/prompts_with_history': {
    unit: 'count',
    meaning: 'Problems with a known shortest correct answer.',
    when: 'reward `hapo`',
  },
  'laser-d/target_high': {
    unit: TOKENS,
    meaning: 'Target length of groups with at least two thirds correct answers.',
    when: 'reward `laser-d`, once measured',
  },
  'laser-d/target_medium': {
    unit: TOKENS,
    meaning: 'Target length of groups with at least one third.',
    when: 'reward `laser-d`, once measured',
  },
  'laser-d/target_low': {
    unit: TOKENS,
    meaning: 'Target length of the other groups.',
    when: 'reward `laser-d`, once measured',
  },
  'short-rl/best_accuracy': {
    unit: FRACTION,
    meaning: 'Highest batch accuracy so far.',
    when: 'reward `short-rl`',
  },
} as const;

const EVALUATED = 'steps with an evaluation (`evalSteps`)';

const HELD_OUT = 'evaluations of `acoer sft` (`evalExamples`)';

const ofEvaluation = {
  'eval/greedy_accuracy': { unit: FRACTION, meaning: 'Accuracy of greedy answers.', when: EVALUATED },
  'eval/greedy_thinking_tokens': { unit: TOKENS, meaning: 'Mean thinking length of these.', when: EVALUATED },
  'eval/greedy_total_tokens': { unit: TOKENS, meaning: 'Mean length of these.', when: EVALUATED },
  'eval/greedy_accuracy_per_1k_tokens': {
    unit: 'points per 1,000 tokens',
    meaning: 'Accuracy in percent divided by the mean length in thousands.',
    when: EVALUATED,
  },
  'eval/sampled_accuracy': {
    unit: FRACTION,
    meaning: 'Accuracy of answers sampled at temperature 1.',
    when: EVALUATED,
  },
  'eval/sampled_thinking_tokens': {
    unit: TOKENS,
    meaning: 'Mean thinking length of these.',
    when: EVALUATED,
  },
  'eval/sampled_total_tokens': { unit: TOKENS, meaning: 'Mean length of these.', when: EVALUATED },
  'eval/sampled_accuracy_per_1k_tokens': {
    unit: 'points per 1,000 tokens',
    meaning: 'Accuracy in percent divided by the mean length in thousands.',
    when: EVALUATED,
  },
  'eval/loss': {
    unit: 'nats per token',
    meaning: 'Negative log-likelihood of the completion tokens of held-out examples.',
    when: HELD_OUT,
  },
  'eval/entropy': {
    unit: 'nats per token',
    meaning: 'Mean entropy of the next-token distribution over these.',
    when: HELD_OUT,
  },
} as const;

const WARM = 'the monitor has seen such a value';

/** Moving averages of the collapse guard over the last groups (docs/collapse.md). */
const ofMonitor = {
  'monitor/state': { unit: '0, 1, 2', meaning: 'Healthy, warning, collapsed.' },
  'monitor/accuracy': { unit: FRACTION, meaning: 'Average of accuracy/mean.', when: WARM },
  'monitor/accuracy_peak': {
    unit: FRACTION,
    meaning: 'Highest value of that average.',
    when: 'the monitor has seen enough groups to judge',
  },
  'monitor/accuracy_spread': { unit: FRACTION, meaning: 'Average of accuracy/group_std.', when: WARM },
  'monitor/thinking': { unit: TOKENS, meaning: 'Average of thinking/mean.', when: WARM },
  'monitor/thinking_correct': { unit: TOKENS, meaning: 'Average of thinking/correct_mean.', when: WARM },
  'monitor/thinking_wrong': { unit: TOKENS, meaning: 'Average of thinking/wrong_mean.', when: WARM },
  'monitor/spread_correct': { unit: TOKENS, meaning: 'Average of thinking/correct_group_std.', when: WARM },
  'monitor/spread_wrong': { unit: TOKENS, meaning: 'Average of thinking/wrong_group_std.', when: WARM },
  'monitor/all_wrong': { unit: FRACTION, meaning: 'Average of accuracy/groups_all_wrong.', when: WARM },
  'monitor/all_correct': { unit: FRACTION, meaning: 'Average of accuracy/groups_all_correct.', when: WARM },
  'monitor/brevity': { unit: FRACTION, meaning: 'Average of advantages/brevity.', when: WARM },
  'monitor/zero_std': { unit: FRACTION, meaning: 'Average of frac_reward_zero_std.', when: WARM },
  'monitor/entropy': { unit: 'nats per token', meaning: 'Average of entropy.', when: WARM },
  'monitor/truncated': { unit: FRACTION, meaning: 'Average of completions/clipped_ratio.', when: WARM },
  'monitor/advantage': {
    unit: 'advantage',
    meaning: "Average of the batch's largest |advantage|.",
    when: WARM,
  },
  'monitor/answer': {
    unit: TOKENS,
    meaning: 'Average of completions/answer_length.',
    when: WARM,
  },
  'monitor/rollbacks': { unit: 'count', meaning: 'Number of rollbacks so far.' },
  'monitor/pressure': { unit: FRACTION, meaning: 'Efficiency pressure left after the rollbacks.' },
} as const;

const ofCost = {
  step_time: { unit: SECONDS, meaning: 'The whole step.', trl: true },
  'time/generate': { unit: SECONDS, meaning: 'Generation, including grading, which overlaps with it.' },
  'time/reward': { unit: SECONDS, meaning: 'Rewards and advantages.' },
  'time/score': { unit: SECONDS, meaning: 'Log-probs of the old policy and of the base model.' },
  'time/train': { unit: SECONDS, meaning: 'Forward and backward passes.' },
  'time/optimizer': { unit: SECONDS, meaning: 'The AdamW step.' },
  'time/generated_tokens_per_second': {
    unit: 'tokens per second',
    meaning: 'New tokens divided by time/generate.',
    when: 'steps that generate',
  },
  'memory/engine_bytes': { unit: BYTES, meaning: 'Memory of the engine: model, policy, optimiser, cache.' },
  'memory/resident_bytes': { unit: BYTES, meaning: 'Resident memory of the process.' },
  'memory/peak_resident_bytes': { unit: BYTES, meaning: 'Peak resident memory so far.' },
  'memory/peak_tensor_bytes': {
    unit: BYTES,
    meaning: 'Peak total size of all tensors so far.',
    when: 'tensors are counted (`memoryLimitBytes`, or a GPU)',
  },
  'memory/device_used_bytes': { unit: BYTES, meaning: 'Memory in use on the device, by any process.' },
  'memory/micro_batch_tokens': {
    unit: TOKENS,
    meaning: 'Maximum tokens per pass: microBatchTokens, or less after memory ran out.',
  },
  'memory/max_slots': {
    unit: 'count',
    meaning: 'Maximum number of sequences decoded together: maxSlots, or fewer after memory ran out.',
  },
} as const;

/** The metrics under the headings of `docs/metrics.md`. */
export const METRIC_GROUPS = {
  Step: ofStep,
  Update: ofUpdate,
  'Clipping and the sampler': { ...ofLoss, ...ofSampler },
  Completions: ofCompletions,
  'Rewards and advantages': ofReward,
  Accuracy: ofAccuracy,
  Thinking: ofThinking,
  'State of rewards': ofRewardStates,
  Evaluations: ofEvaluation,
  'Collapse guard': ofMonitor,
  'Time and memory': ofCost,
} as const satisfies Readonly<Record<string, Readonly<Record<string, MetricInfo>>>>;

export const METRICS = {
  ...ofStep,
  ...ofUpdate,
  ...ofLoss,
  ...ofSampler,
  ...ofCompletions,
  ...ofReward,
  ...ofAccuracy,
  ...ofThinking,
  ...ofRewardStates,
  ...ofEvaluation,
  ...ofMonitor,
  ...ofCost,
} as const;

export type MetricName = keyof typeof METRICS;

/** Names with a variable part: the rewards in use, as in TRL. */
export type MetricFamily = `rewards/${string}/mean` | `rewards/${string}/std`;

export const METRIC_FAMILIES: Readonly<Record<string, MetricInfo & { pattern: RegExp }>> = {
  'rewards/<name>/mean': {
    pattern: /^rewards\/.+\/mean$/,
    unit: 'reward',
    meaning: 'Mean of one reward, before its weight; `format` is one of them.',
    trl: true,
  },
  'rewards/<name>/std': {
    pattern: /^rewards\/.+\/std$/,
    unit: 'reward',
    meaning: 'Standard deviation of that reward over the batch.',
    trl: true,
  },
};

/** The metrics that the program writes and reads; a misspelt name does not compile. */
export type KnownMetrics = { [Name in MetricName]?: number } & { [Name in MetricFamily]?: number };

export const isKnownMetric = (name: string): boolean =>
  Object.hasOwn(METRICS, name) || Object.values(METRIC_FAMILIES).some(({ pattern }) => pattern.test(name));

/** Who may add numbers of its own to a line, and the names of the registry that are for it. */
const WRITERS = { reward: ofRewardStates, loss: ofLoss } as const;
export type MetricWriter = keyof typeof WRITERS;

/** Whether a reward or loss may not write under `name`, because the run writes it itself. */
export const isReservedMetric = (name: string, writer: MetricWriter): boolean =>
  isKnownMetric(name) && !Object.hasOwn(WRITERS[writer], name);

const isTrlMetric = (name: string): boolean =>
  Object.hasOwn(METRICS, name)
    ? 'trl' in METRICS[name as MetricName]
    : Object.values(METRIC_FAMILIES).some(({ pattern, trl }) => trl === true && pattern.test(name));

/**
 * The name of a metric in a tracker such as TensorBoard: what TRL logs has the tag that TRL's runs have there
 * (`train/` and the name), so that runs of both can be overlaid; all else keeps its name.
 */
export const trackerTag = (name: string): string => (isTrlMetric(name) ? `train/${name}` : name);
