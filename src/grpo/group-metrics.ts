/** For the collapse monitor: how far the completions of a group differ, and how large advantages get. */
import type { KnownMetrics, MetricName } from '../base/metric-names';
import type { Group, Rollout } from '../base/types';
import type { GenerationBatch } from './batch';
import { isGraded } from './sample';
import { brevityShare, sameVerdictShare } from './same-verdict';
import { maximum, mean, minimum, sampleStd } from '../base/statistics';

const all = () => true;
const correct = (rollout: Rollout) => rollout.verdict.correct;

/** The mean std of `value` within groups, over the completions for which `holds`; null without a group of two. */
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
    'accuracy/group_std': spread(graded, all, (rollout) => Number(correct(rollout))),
    'thinking/group_std': spread(graded, all, length),
    'thinking/correct_group_std': spread(graded, correct, length),
    'thinking/wrong_group_std': spread(graded, (rollout) => !correct(rollout), length),
    // A rollback lowers the pressure, and with it how much brevity pays.
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
