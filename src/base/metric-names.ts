/**
 * Every number that a line of metrics.jsonl may contain, in the order of `docs/metrics.md`, which is generated from
 * this file. Code that writes or reads metrics uses `KnownMetrics`, so an unknown name does not compile.
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
const COUNT = 'count';
const NATS = 'nats per token';
const CORRECTED = '`importanceSamplingCorrection`';
const IN_FLIGHT = '`groupsInFlight`';
const SPECULATION = '`numSpeculativeTokens` above 0';
const CLIPPING = 'all loss types except `cispo`, `sapo` and `vespo`';
const EVALUATED = 'steps with an evaluation (`evalSteps`)';
const HELD_OUT = 'evaluations of `acoer sft` (`evalExamples`)';
const RANKS = 'runs of several processes';
const WARM = 'the monitor has seen such a value';
const TIERED = 'reward `laser-d`, once measured';
const TWO = 'a group has two of them';

/** @param when a line has it; always if absent */
const own = (unit: string, meaning: string, when?: string): MetricInfo => ({
  unit,
  meaning,
  ...(when !== undefined && { when }),
});
/** The same for a number that TRL logs, too. */
const trl = (...row: Parameters<typeof own>): MetricInfo => ({ ...own(...row), trl: true });

const ACCURACY_PER_1K = own(
  'points per 1,000 tokens',
  'Accuracy in percent divided by the mean length in thousands.',
  EVALUATED,
);

/** Written by the loss in use. */
const ofLoss = {
  'clip_ratio/low_mean': trl(FRACTION, 'Tokens (sequences at sequence level) clipped from below.', CLIPPING),
  'clip_ratio/low_min': trl(FRACTION, 'The same for the completion with the fewest.', CLIPPING),
  'clip_ratio/high_mean': trl(FRACTION, 'Tokens (sequences) clipped from above.', CLIPPING),
  'clip_ratio/high_max': trl(FRACTION, 'The same for the completion with the most.', CLIPPING),
  'clip_ratio/region_mean': trl(FRACTION, 'Tokens (sequences) clipped on either side.', CLIPPING),
  cispo_clip_ratio: trl(FRACTION, 'Tokens whose importance weight is capped.', '`lossType: cispo`'),
  'vespo/phi_seq_mean': trl('weight', 'Mean weight of a sequence in vespo.', '`lossType: vespo`'),
} as const;

const ofRewardStates = {
  'acoer/alpha': own('weight', 'Strength of the efficiency bonus.', 'reward `acoer`'),
  'acoer/budget': own(TOKENS, 'Budget below which a correct answer earns a bonus.', 'reward `acoer`'),
  'acoer/ema_accuracy': own(FRACTION, "The controller's moving average of accuracy.", 'reward `acoer`'),
  'acoer/ema_correct_length': own(
    TOKENS,
    "The controller's moving average of the length of correct answers.",
    'reward `acoer`, after the first correct answer',
  ),
  'a-dlp/lambda': own('weight', 'Strength of the length penalty.', 'reward `a-dlp`'),
  'hapo/prompts_with_history': own(COUNT, 'Problems with a known shortest correct answer.', 'reward `hapo`'),
  'laser-d/target_high': own(
    TOKENS,
    'Target length of groups with at least two thirds correct answers.',
    TIERED,
  ),
  'laser-d/target_medium': own(TOKENS, 'Target length of groups with at least one third.', TIERED),
  'laser-d/target_low': own(TOKENS, 'Target length of the other groups.', TIERED),
  'short-rl/best_accuracy': own(FRACTION, 'Highest batch accuracy so far.', 'reward `short-rl`'),
} as const;

/** The metrics under the headings of `docs/metrics.md`. */
export const METRIC_GROUPS = {
  Step: {
    step: trl('steps', 'Number of the update, from 1.'),
    epoch: trl('epochs', 'Prompts drawn so far divided by the size of the data set.'),
    num_tokens: trl(TOKENS, 'Prompt and completion tokens of the whole run so far.'),
  },
  Update: {
    learning_rate: trl('rate', 'Learning rate of this update.'),
    loss: trl('loss', 'The loss that was differentiated, including the KL term.'),
    grad_norm: trl('norm', 'Norm of the gradient before it is clipped to maxGradNorm.'),
    entropy: trl(
      NATS,
      'Mean entropy of the next-token distribution over the tokens in the loss whose entropy is known.',
      'the loss has such tokens: those trained on, and those skipped if the sampler gives entropies',
    ),
    kl: trl(NATS, "Mean estimate of the policy's divergence from the base model.", '`beta` above 0'),
    update_applied: own('0 or 1', '0: the step was skipped because a number was not finite.'),
    micro_batches: own(COUNT, 'Number of forward and backward passes that the update was split into.'),
    skipped_sequences: own(
      COUNT,
      'Completions whose gradient is exactly zero, so they were left out of the passes.',
    ),
  },
  'Clipping and the sampler': {
    ...ofLoss,
    'sampling/importance_sampling_ratio/min': trl(
      'ratio',
      'Smallest weight of the importance correction, after its bounds.',
      CORRECTED,
    ),
    'sampling/importance_sampling_ratio/mean': trl(
      'ratio',
      'Mean of these weights over the trained tokens (completions, in sequence modes).',
      CORRECTED,
    ),
    'sampling/importance_sampling_ratio/max': trl('ratio', 'Largest of these weights.', CORRECTED),
    'sampling/sampling_logp_difference/mean': trl(
      'nats',
      "Mean |difference| between the sampler's and the trainer's log-probs of the trained tokens.",
      'the log-probs of the sampling weights were computed without dropout',
    ),
    'sampling/sampling_logp_difference/max': trl('nats', 'Largest of these differences.', 'as for its mean'),
    'sampling/mismatch_kl': own(
      NATS,
      "Mean estimate (k3) of the sampler's divergence from the trainer over these tokens; 0 when they agree.",
      'as for these differences',
    ),
    'sampling/ratio_outside': own(
      FRACTION,
      'Trained tokens (completions, in sequence modes) whose weight the bounds of the importance correction changed.',
      CORRECTED,
    ),
    'sampling/staleness/mean': own(
      'updates',
      "Mean age of the trained completions' tokens: the updates between the policy that sampled a token and the one that trains on it first.",
      IN_FLIGHT,
    ),
    'sampling/staleness/max': own('updates', 'Largest of these ages; at most `maxStaleness`.', IN_FLIGHT),
    'sampling/speculation/proposed': own(
      TOKENS,
      'Tokens of the batch that a step of decoding computed beside the one before them, because they followed the same tokens before.',
      SPECULATION,
    ),
    'sampling/speculation/accepted': own(TOKENS, 'Of those, the ones that were drawn.', SPECULATION),
    'sampling/retries': own(
      COUNT,
      'Requests that the sampler had to make again.',
      'steps that generate, with a sampler that counts them',
    ),
  },
  Completions: {
    'completions/mean_length': trl(TOKENS, 'Mean length of the completions.'),
    'completions/min_length': trl(TOKENS, 'Shortest completion.'),
    'completions/max_length': trl(TOKENS, 'Longest completion.'),
    'completions/clipped_ratio': trl(FRACTION, 'Completions cut off at maxCompletionLength.'),
    'completions/mean_terminated_length': trl(
      TOKENS,
      'Mean length of the completions that were not cut off; 0 if there are none.',
    ),
    'completions/min_terminated_length': trl(TOKENS, 'Shortest of these.'),
    'completions/max_terminated_length': trl(TOKENS, 'Longest of these.'),
    'completions/answer_length': own(
      TOKENS,
      'Mean number of tokens outside every <think> block; 0 for a completion without one.',
    ),
  },
  'Rewards and advantages': {
    reward: trl('reward', 'Mean of the weighted sum of all rewards.'),
    reward_std: trl('reward', 'Standard deviation of that sum over the batch.'),
    frac_reward_zero_std: trl(FRACTION, 'Groups whose rewards are all equal, which have no gradient.'),
    'advantages/min': own('advantage', 'Smallest advantage of the batch.'),
    'advantages/max': own('advantage', 'Largest advantage of the batch.'),
    'advantages/same_verdict_share': own(
      FRACTION,
      'Share of the squared advantage that separates completions with the same verdict: the pressure on length.',
    ),
    'advantages/brevity': own(
      FRACTION,
      'Pairs of correct answers to a problem in which the shorter has the higher advantage.',
      'a group has two correct answers of different lengths',
    ),
  },
  Accuracy: {
    'accuracy/mean': own(FRACTION, 'Correct completions, in groups whose reference can be parsed.'),
    'accuracy/groups_all_correct': own(FRACTION, 'Groups in which every completion is correct.'),
    'accuracy/groups_all_wrong': own(FRACTION, 'Groups in which no completion is correct.'),
    'accuracy/group_std': own(
      FRACTION,
      'Mean over groups of the standard deviation of correct (1) and wrong (0).',
      'a reference of the batch can be read',
    ),
    'accuracy/format': own(FRACTION, 'Completions with a closed <think>...</think> and a \\boxed{}.'),
    'accuracy/unparseable': own(FRACTION, 'Completions without an answer that can be parsed.'),
    'accuracy/timeout': own(FRACTION, 'Completions whose comparison took too long.'),
    'accuracy/gold_unparseable': own(FRACTION, 'Groups whose reference cannot be parsed.'),
  },
  Thinking: {
    'thinking/mean': own(TOKENS, 'Mean length of the first thinking block.'),
    'thinking/later_blocks_mean': own(TOKENS, 'Mean number of tokens in thinking blocks after the first.'),
    'thinking/max': own(TOKENS, 'Longest thinking block.'),
    'thinking/closed_ratio': own(FRACTION, 'Completions whose thinking is closed.'),
    'thinking/correct_mean': own(TOKENS, 'Mean thinking length of correct completions.', 'there is one'),
    'thinking/wrong_mean': own(TOKENS, 'Mean thinking length of wrong completions.', 'there is one'),
    'thinking/group_std': own(
      TOKENS,
      'Mean over groups of the standard deviation of the thinking length.',
      'a reference of the batch can be read',
    ),
    'thinking/correct_group_std': own(TOKENS, 'The same over the correct completions of a group.', TWO),
    'thinking/wrong_group_std': own(TOKENS, 'The same over the wrong completions of a group.', TWO),
  },
  'State of rewards': ofRewardStates,
  Evaluations: {
    'eval/greedy_accuracy': own(FRACTION, 'Accuracy of greedy answers.', EVALUATED),
    'eval/greedy_thinking_tokens': own(TOKENS, 'Mean thinking length of these.', EVALUATED),
    'eval/greedy_total_tokens': own(TOKENS, 'Mean length of these.', EVALUATED),
    'eval/greedy_accuracy_per_1k_tokens': ACCURACY_PER_1K,
    'eval/sampled_accuracy': own(FRACTION, 'Accuracy of answers sampled at temperature 1.', EVALUATED),
    'eval/sampled_thinking_tokens': own(TOKENS, 'Mean thinking length of these.', EVALUATED),
    'eval/sampled_total_tokens': own(TOKENS, 'Mean length of these.', EVALUATED),
    'eval/sampled_accuracy_per_1k_tokens': ACCURACY_PER_1K,
    'eval/loss': own(
      NATS,
      'Negative log-likelihood of the completion tokens of held-out examples.',
      HELD_OUT,
    ),
    'eval/entropy': own(NATS, 'Mean entropy of the next-token distribution over these.', HELD_OUT),
  },
  /** Moving averages of the collapse guard over the last groups (docs/collapse.md). */
  'Collapse guard': {
    'monitor/state': own('0, 1, 2', 'Healthy, warning, collapsed.'),
    'monitor/accuracy': own(FRACTION, 'Average of accuracy/mean.', WARM),
    'monitor/accuracy_peak': own(
      FRACTION,
      'Highest value of that average.',
      'the monitor has seen enough groups to judge',
    ),
    'monitor/accuracy_spread': own(FRACTION, 'Average of accuracy/group_std.', WARM),
    'monitor/thinking': own(TOKENS, 'Average of thinking/mean.', WARM),
    'monitor/thinking_correct': own(TOKENS, 'Average of thinking/correct_mean.', WARM),
    'monitor/thinking_wrong': own(TOKENS, 'Average of thinking/wrong_mean.', WARM),
    'monitor/spread_correct': own(TOKENS, 'Average of thinking/correct_group_std.', WARM),
    'monitor/spread_wrong': own(TOKENS, 'Average of thinking/wrong_group_std.', WARM),
    'monitor/all_wrong': own(FRACTION, 'Average of accuracy/groups_all_wrong.', WARM),
    'monitor/all_correct': own(FRACTION, 'Average of accuracy/groups_all_correct.', WARM),
    'monitor/brevity': own(FRACTION, 'Average of advantages/brevity.', WARM),
    'monitor/zero_std': own(FRACTION, 'Average of frac_reward_zero_std.', WARM),
    'monitor/entropy': own(NATS, 'Average of entropy.', WARM),
    'monitor/truncated': own(FRACTION, 'Average of completions/clipped_ratio.', WARM),
    'monitor/advantage': own('advantage', "Average of the batch's largest |advantage|.", WARM),
    'monitor/answer': own(TOKENS, 'Average of completions/answer_length.', WARM),
    'monitor/rollbacks': own(COUNT, 'Number of rollbacks so far.'),
    'monitor/pressure': own(FRACTION, 'Efficiency pressure left after the rollbacks.'),
  },
  'Time and memory': {
    step_time: trl(SECONDS, 'The whole step.'),
    'time/generate': own(SECONDS, 'Generation, including grading, which overlaps with it.'),
    'time/reward': own(SECONDS, 'Rewards and advantages.'),
    'time/score': own(SECONDS, 'Log-probs of the old policy and of the base model.'),
    'time/train': own(SECONDS, 'Forward and backward passes.'),
    'time/optimizer': own(SECONDS, 'The AdamW step.'),
    'time/generated_tokens_per_second': own(
      'tokens per second',
      'New tokens divided by time/generate.',
      'steps that generate',
    ),
    'ranks/size': own(COUNT, 'Processes that the run has.', RANKS),
    'ranks/wait_seconds/mean': own(SECONDS, 'Mean time that a rank waited for the others.', RANKS),
    'ranks/wait_seconds/max': own(SECONDS, 'The same of the rank that waited longest.', RANKS),
    'ranks/tokens_per_second/min': own(
      'tokens per second',
      'New tokens of the slowest rank, divided by its own time.',
      `${RANKS}, steps that generate`,
    ),
    'ranks/tokens_per_second/max': own(
      'tokens per second',
      'The same of the fastest rank.',
      `${RANKS}, steps that generate`,
    ),
    'memory/engine_bytes': own(BYTES, 'Memory of the engine: model, policy, optimiser, cache.'),
    'memory/resident_bytes': own(BYTES, 'Resident memory of the process.'),
    'memory/peak_resident_bytes': own(BYTES, 'Peak resident memory so far.'),
    'memory/peak_tensor_bytes': own(
      BYTES,
      'Peak total size of all tensors so far.',
      'tensors are counted (`memoryLimitBytes`, or a GPU)',
    ),
    'memory/device_used_bytes': own(BYTES, 'Memory in use on the device, by any process.'),
    'memory/micro_batch_tokens': own(
      TOKENS,
      'Maximum tokens per pass: microBatchTokens, or less after memory ran out.',
    ),
    'memory/max_slots': own(
      COUNT,
      'Maximum number of sequences decoded together: maxSlots, or fewer after memory ran out.',
    ),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, MetricInfo>>>>;

type Groups = typeof METRIC_GROUPS;
export type MetricName = { [Group in keyof Groups]: keyof Groups[Group] }[keyof Groups];

export const METRICS = Object.assign({}, ...Object.values(METRIC_GROUPS)) as Readonly<
  Record<MetricName, MetricInfo>
>;

/** Names with a variable part: the rewards in use, as in TRL, and the processes of the run. */
export type MetricFamily =
  | `rewards/${string}/mean`
  | `rewards/${string}/std`
  | `ranks/wait_seconds/${number}`
  | `ranks/tokens_per_second/${number}`;

export const METRIC_FAMILIES: Readonly<Record<string, MetricInfo & { pattern: RegExp }>> = {
  'rewards/<name>/mean': {
    pattern: /^rewards\/.+\/mean$/,
    ...trl('reward', 'Mean of one reward, before its weight; `format` is one of them.'),
  },
  'rewards/<name>/std': {
    pattern: /^rewards\/.+\/std$/,
    ...trl('reward', 'Standard deviation of that reward over the batch.'),
  },
  'ranks/wait_seconds/<rank>': {
    pattern: /^ranks\/wait_seconds\/\d+$/,
    ...own(SECONDS, 'Time of the step that this rank waited for the others.', RANKS),
  },
  'ranks/tokens_per_second/<rank>': {
    pattern: /^ranks\/tokens_per_second\/\d+$/,
    ...own('tokens per second', 'New tokens of this rank, divided by its own time.', RANKS),
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
    ? METRICS[name as MetricName].trl === true
    : Object.values(METRIC_FAMILIES).some((family) => family.trl === true && family.pattern.test(name));

/**
 * The name of a metric in a tracker such as TensorBoard: what TRL logs has the tag that TRL's runs have there
 * (`train/` and the name), so that runs of both can be overlaid; all else keeps its name.
 */
export const trackerTag = (name: string): string => (isTrlMetric(name) ? `train/${name}` : name);
