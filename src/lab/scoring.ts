/** Rewards and advantages of a group, computed as in the training loop. */
import { badInput } from '../base/errors';
import { computeAdvantages } from '../grpo/advantages';
import { observeBatch, scoreCalls } from '../grpo/rewards';
import type { Group } from '../base/types';
import type { Scene, Subject } from './types';

/** What each answer of the scene's own group gets. */
export interface Scored {
  /** Including the format reward. */
  rewards: Float64Array;
  advantages: Float64Array;
  /** Advantages with epsilon 0. */
  advantagesNoEpsilon: Float64Array;
  zeroVariance: boolean;
}

async function groupRewards(subject: Subject, scene: Scene, group: Group): Promise<Float64Array> {
  const { reward, state, settings } = subject;
  const view = { step: scene.step, maxLength: settings.maxLength, group, batch: scene.batch, state };
  const calls = group.rollouts.map((rollout) => ({ rollout, view }));
  const scores = await scoreCalls({ reward, weight: 1 }, calls, settings.timeoutMs);
  return Float64Array.from(scores, ({ value }, i) => {
    return value + (group.rollouts[i]!.format ? settings.formatWeight : 0);
  });
}

/** Scores the scene's own group. @throws REWARD_FAILED naming the reward and the answer */
export async function scoreScene(subject: Subject, scene: Scene): Promise<Scored> {
  const { scale, epsilon } = subject.settings;
  const own = scene.batch[scene.own]!;
  const size = own.rollouts.length;
  // With scale `batch` an advantage depends on every group's rewards, else on its own group's only.
  const [groups, place] = scale === 'batch' ? [scene.batch, scene.own] : [[own], 0];
  if (groups.some(({ rollouts }) => rollouts.length !== size)) {
    throw badInput(
      `The groups of step ${scene.step} differ in size, so advantages cannot be scaled by the batch; choose scale group or none.`,
    );
  }
  const parts = await Promise.all(groups.map((group) => groupRewards(subject, scene, group)));
  const rewards = Float64Array.from(parts.flatMap((part) => [...part]));
  const start = place * size;
  const of = (epsilon: number) => computeAdvantages(rewards, size, scale, epsilon);
  const advantages = of(epsilon);
  const cut = (values: Float64Array) => values.subarray(start, start + size);
  return {
    rewards: cut(rewards),
    advantages: cut(advantages.values),
    advantagesNoEpsilon: epsilon === 0 ? cut(advantages.values) : cut(of(0).values),
    zeroVariance: advantages.zeroVariance[place]!,
  };
}

/** The state after a batch, advanced as in training. @throws REWARD_FAILED naming the reward and the step */
export async function observeGroups(
  { reward, settings }: Subject,
  state: unknown,
  groups: readonly Group[],
  step: number,
): Promise<unknown> {
  const states = await observeBatch(
    groups,
    [{ reward, weight: 1 }],
    { [reward.name]: state },
    { ...settings, step },
  );
  return states[reward.name];
}
