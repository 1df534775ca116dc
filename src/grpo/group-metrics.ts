/** How far the completions of one group differ, and how large advantages get: what the collapse monitor looks at. */
import type { KnownMetrics, MetricName } from '../metric-names';
import type { Group, Rollout } from '../types';
import type { GenerationBatch } from './batch';
import { isGraded } from './sample';
import { brevityShare, sameVerdictShare } from './same-verdict';
import { maximum, mean, minimum, sampleStd } from '../statistics';

const correct = (rollout: Rollout) => rollout.verdict.correct;

/** Mean over the groups with at least two such completions of the std of `value` within the group; null without any. */
function spread(
  groups: readonly Group[],
  holds: (rollout: Rollout) => boolean,
  value: (rollout: Rollout) => number,
): number | null {
  const kept = groups.map(({ rollouts }) => rollouts.filter(holds)).filter((rollouts) => rollouts.length > 1);
  return kept.length === 0 ? null : mean(kept.map((rollouts) => sampleStd(rollouts.map(value))));
}

/** Over the groups whose reference could be read; lengths in thinking tokens. */
export function groupMetrics({
  groups,
  advantages,
  state,
}: Pick<GenerationBatch, 'groups' | 'advantages' | 'state'>): KnownMetrics {
  const graded = groups.filter(isGraded);
  const length = (rollout: Rollout) => rollout.thinkingTokens;
  const brevity = brevityShare(groups, advantages);
  const found: { [Name in MetricName]?: number | null } = {
    'accuracy/group_std': spread(
      graded,
      () => true,
      (rollout) => Number(correct(rollout)),
    ),
    'thinking/group_std': spread(graded, () => true, length),
    'thinking/correct_group_std': spread(graded, correct, length),
    'thinking/wrong_group_std': spread(graded, (rollout) => !correct(rollout), length),
    // What a rollback took off the pressure does not press.
    'advantages/brevity': brevity && brevity * state.eased.pressure,
  };
  const metrics: KnownMetrics = {
    'advantages/min': minimum(advantages.values),
    'advantages/max': maximum(advantages.values),
    'advantages/same_verdict_share': sameVerdictShare(groups, advantages),
  };
  for (const [name, value] of Object.entries(found)) if (value !== null) metrics[name as MetricName] = value;
  return metrics;
}
