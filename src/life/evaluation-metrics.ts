/** How an evaluation is written into a line of metrics.jsonl. */
import type { KnownMetrics } from '../base/metric-names';
import type { Evaluation } from './events';

/** The evaluation's numbers for a line of metrics.jsonl. */
export function evaluationMetrics(evaluation: Evaluation): KnownMetrics {
  const metrics: KnownMetrics = {};
  for (const kind of ['greedy', 'sampled'] as const) {
    const summary = evaluation[kind];
    if (summary === null) continue;
    metrics[`eval/${kind}_accuracy`] = summary.accuracy;
    metrics[`eval/${kind}_thinking_tokens`] = summary.thinkingTokens;
    metrics[`eval/${kind}_total_tokens`] = summary.totalTokens;
    metrics[`eval/${kind}_accuracy_per_1k_tokens`] = summary.accuracyPer1kTokens;
  }
  return metrics;
}
