/** The names of the metrics that the monitor depends on. */
import type { MetricName } from '../base/metric-names';

/** The metrics that the monitor reads, by their meaning there. */
export const READ = {
  accuracy: 'accuracy/mean',
  accuracySpread: 'accuracy/group_std',
  allCorrect: 'accuracy/groups_all_correct',
  allWrong: 'accuracy/groups_all_wrong',
  unreadable: 'accuracy/gold_unparseable',
  thinking: 'thinking/mean',
  thinkingCorrect: 'thinking/correct_mean',
  thinkingWrong: 'thinking/wrong_mean',
  spreadCorrect: 'thinking/correct_group_std',
  spreadWrong: 'thinking/wrong_group_std',
  answer: 'completions/answer_length',
  length: 'completions/mean_length',
  truncated: 'completions/clipped_ratio',
  brevity: 'advantages/brevity',
  lowestAdvantage: 'advantages/min',
  highestAdvantage: 'advantages/max',
  zeroStd: 'frac_reward_zero_std',
  entropy: 'entropy',
  tokens: 'num_tokens',
  step: 'step',
  applied: 'update_applied',
} as const satisfies Readonly<Record<string, MetricName>>;

/** The metrics of an evaluation between the steps. */
export const EVALUATED = {
  greedy: { accuracy: 'eval/greedy_accuracy', thinking: 'eval/greedy_thinking_tokens' },
  sampled: { accuracy: 'eval/sampled_accuracy', thinking: 'eval/sampled_thinking_tokens' },
} as const satisfies Readonly<Record<string, Record<string, MetricName>>>;
