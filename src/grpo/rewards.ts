/** Rewards of a generated batch: every reward for every completion, weighted and added up, and the new states. */
import { AcoerError, errorMessage } from '../errors';
import type { RewardScore, RewardView } from '../rewards/types';
import type { Group, Reward, Rollout } from '../types';
import type { WeightedReward } from './context';

export interface RewardSettings {
  step: number;
  maxLength: number;
  formatWeight: number;
  timeoutMs: number;
}

export interface BatchRewards {
  /** Per completion, groups end to end. */
  rewards: Reward[];
  /** Unweighted values per reward function (`format` among them), in the same order. */
  perFunction: Record<string, Float64Array>;
  /** Weight of each reward function, by the same names. */
  weights: Record<string, number>;
}

const place = (rollout: Rollout) =>
  `sample ${rollout.sample} of prompt ${rollout.prompt.index} (problem ${rollout.prompt.problem.id})`;

const isPromise = <T>(work: T | Promise<T>): work is Promise<T> =>
  typeof (work as { then?: unknown } | null)?.then === 'function';

async function withTimeout<T>(work: T | Promise<T>, timeoutMs: number): Promise<T> {
  if (!isPromise(work)) return work;
  let timer: NodeJS.Timeout | undefined;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    return await Promise.race([work, expired]);
  } finally {
    clearTimeout(timer);
  }
}

async function scoreOne(
  { reward }: WeightedReward,
  rollout: Rollout,
  view: RewardView<unknown>,
  timeoutMs: number,
): Promise<RewardScore> {
  let score: RewardScore;
  try {
    const work = reward.score(rollout, view);
    score = await (reward.keepsTime ? work : withTimeout(work, timeoutMs));
  } catch (cause) {
    const message = `Reward "${reward.name}" failed on ${place(rollout)}: ${errorMessage(cause)}`;
    throw new AcoerError('REWARD_FAILED', message, { cause });
  }
  if (!Number.isFinite(score?.value)) {
    const found = String(score?.value);
    throw new AcoerError('REWARD_FAILED', `Reward "${reward.name}" gave ${found} for ${place(rollout)}.`);
  }
  return score;
}

/** Scores one generated batch with the rewards' states as they were before it. */
export async function scoreBatch(
  groups: readonly Group[],
  weighted: readonly WeightedReward[],
  states: Readonly<Record<string, unknown>>,
  settings: RewardSettings,
): Promise<BatchRewards> {
  const { step, maxLength, formatWeight, timeoutMs } = settings;
  const rollouts = groups.flatMap((group) => group.rollouts.map((rollout) => ({ group, rollout })));
  const rewards: Reward[] = rollouts.map(() => ({ total: 0, parts: {} }));
  const perFunction: Record<string, Float64Array> = {};
  const weights: Record<string, number> = {};
  for (const entry of weighted) {
    const { name } = entry.reward;
    const state = states[name];
    const scores = await Promise.all(
      rollouts.map(({ group, rollout }) =>
        scoreOne(entry, rollout, { step, maxLength, group, batch: groups, state }, timeoutMs),
      ),
    );
    weights[name] = entry.weight;
    perFunction[name] = Float64Array.from(scores, (score) => score.value);
    scores.forEach((score, i) => addPart(rewards[i]!, name, score.value, entry.weight));
  }
  if (formatWeight > 0) {
    weights.format = formatWeight;
    perFunction.format = Float64Array.from(rollouts, ({ rollout }) => (rollout.format ? 1 : 0));
    perFunction.format.forEach((value, i) => addPart(rewards[i]!, 'format', value, formatWeight));
  }
  return { rewards, perFunction, weights };
}

function addPart(reward: Reward, name: string, value: number, weight: number): void {
  reward.parts[name] = value * weight;
  reward.total += value * weight;
}

/** The rewards' states after the batch: the one place a controller advances. */
export async function observeBatch(
  groups: readonly Group[],
  weighted: readonly WeightedReward[],
  states: Readonly<Record<string, unknown>>,
  { step, maxLength, timeoutMs }: RewardSettings,
): Promise<Record<string, unknown>> {
  const next: Record<string, unknown> = {};
  for (const { reward } of weighted) {
    try {
      const observed = reward.observe(states[reward.name], { step, maxLength, batch: groups });
      next[reward.name] = await (reward.keepsTime ? observed : withTimeout(observed, timeoutMs));
    } catch (cause) {
      const message = `Reward "${reward.name}" failed to observe the batch of step ${step + 1}: ${errorMessage(cause)}`;
      throw new AcoerError('REWARD_FAILED', message, { cause });
    }
  }
  return next;
}
