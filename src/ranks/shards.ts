/** A policy of which each rank keeps a shard of AdamW's moments: the first stage of ZeRO (https://arxiv.org/abs/1910.02054). */
import type { Moment, Policy } from '../engine/types';
import type { Ranks } from '.';

/** In the order in which `saveMoment` writes them. */
export const MOMENTS: readonly Moment[] = ['exp_avg', 'exp_avg_sq'];

/** Whether the policy keeps a shard of the moments, and others keep theirs. */
export const isSharded = ({ info }: Pick<Policy, 'info'>): boolean => info.shardOffsets.length > 2;

/** After a step, which changed the weights of each rank's shard: all ranks get all. */
export async function gatherWeights(ranks: Ranks, policy: Policy): Promise<void> {
  await ranks.gatherShards(policy, 'weights');
  await policy.takeWeights();
}

/** @param stored what is done with the moment on rank 0 while it is there as a whole */
export async function gatherMoment(
  ranks: Ranks,
  policy: Policy,
  moment: Moment,
  stored: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  try {
    await ranks.gatherShards(policy, moment);
    await stored();
  } finally {
    await policy.zeroGradients();
  }
}
