/**
 * What is left of a length weight (ACOER's alpha) once a group's rewards are divided by their standard
 * deviation.
 *
 * Let r = v + w q, with v from the verdict and format, q from the length and w its weight. Advantages of
 * answers with the same verdict then differ by w (q_i - q_j) / (s(w) + epsilon). Among correct answers alone
 * s is w std(q), so without epsilon w cancels.
 */
import { isRecord } from '../base/json';
import { mean, sampleStd } from '../base/statistics';
import { groupOf, sceneOf } from './rollouts';
import { scoreScene } from './scoring';
import type { Group } from '../base/types';
import type { Composition, GroupSpread, LabSettings, LengthWeight, Study, Subject } from './types';

/** Factors on the current weight. ACOER's alpha starts at 0.02, so they cover its range of 0.01 to 0.50. */
const WEIGHT_FACTORS: readonly number[] = [0.5, 1, 5, 25];

/** From 0 and TRL's value to more than a reward's own spread. */
export const EPSILONS: readonly number[] = [0, 1e-4, 0.01, 0.05, 0.1, 0.2, 0.5];

/** The parts of each reward that come from verdict and format, and from length. */
async function partsOf(subject: Subject, group: Group): Promise<{ fixed: number[]; term: number[] }> {
  const { rewards } = await scoreScene(subject, sceneOf(group));
  const fixed = group.rollouts.map(
    ({ verdict, format }) => (verdict.correct ? 1 : 0) + (format ? subject.settings.formatWeight : 0),
  );
  return { fixed, term: fixed.map((value, i) => rewards[i]! - value) };
}

/**
 * Standard deviation (Bessel) of the rewards at a weight, and its derivative with respect to the logarithm of
 * the weight.
 */
function spreadAt({ fixed, term }: Awaited<ReturnType<typeof partsOf>>, factor: number): GroupSpread {
  const own = term.map((value) => factor * value);
  const rewards = fixed.map((value, i) => value + own[i]!);
  const std = sampleStd(rewards);
  const [center, ownCenter] = [mean(rewards), mean(own)];
  let products = 0;
  for (const [i, reward] of rewards.entries()) products += (reward - center) * (own[i]! - ownCenter);
  return { std, growth: std > 0 ? products / (rewards.length - 1) / std : 0 };
}

type Scaling = Pick<LabSettings, 'scale' | 'epsilon'>;

const divisorOf = (std: number, { scale, epsilon }: Scaling): number =>
  scale === 'none' ? 1 : std + epsilon;

/**
 * The fraction of a small relative change of the weight that reaches the pressure on lengths within one
 * verdict: d log(w / (s + epsilon)) / d log w = 1 - (ds / d log w) / (s + epsilon). Among correct answers
 * alone, where s is proportional to w, it is epsilon / (s + epsilon).
 */
export const holdOf = ({ std, growth }: GroupSpread, scaling: Scaling): number =>
  scaling.scale === 'none' ? 1 : 1 - growth / divisorOf(std, scaling);

/** Standard deviation of a group's advantages: s / (s + epsilon). */
export const strengthOf = ({ std }: GroupSpread, scaling: Scaling): number => std / divisorOf(std, scaling);

/** The strength of a group of correct answers, all of it on length, relative to a mixed group. */
export const balanceOf = ({ allCorrect, mixed }: LengthWeight, scaling: Scaling): number =>
  strengthOf(allCorrect, scaling) / strengthOf(mixed, scaling);

/** The spread of one group's rewards at each factor on the weight. */
export async function groupSpreads(
  subject: Subject,
  group: Group,
  factors: readonly number[],
): Promise<GroupSpread[]> {
  const parts = await partsOf(subject, group);
  return factors.map((factor) => spreadAt(parts, factor));
}

/**
 * The groups' spreads at the reward's own weight, or at all `WEIGHT_FACTORS` of it if its state has an alpha.
 * Empty if length does not affect correct answers.
 */
export async function lengthWeightsOf(study: Study): Promise<LengthWeight[]> {
  const { population, state } = study;
  const alpha = isRecord(state) && typeof state.alpha === 'number' ? state.alpha : null;
  const factors = alpha === null ? [1] : WEIGHT_FACTORS;
  const of = (composition: Composition) => groupSpreads(study, groupOf(population, composition), factors);
  const allCorrect = await of('allCorrect');
  const mixed = await of('mixed');
  if (allCorrect[0]!.std === 0) return [];
  return factors.map((factor, i) => ({
    factor,
    alpha: alpha === null ? null : factor * alpha,
    allCorrect: allCorrect[i]!,
    mixed: mixed[i]!,
  }));
}
