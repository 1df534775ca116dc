/** How one answer's reward follows its own length from nothing to the limit, and what kind of signal that is. */
import { derivatives, stepFor } from './derivative';
import { roomOf } from './pressure';
import { classOf, groupOf, lengthened, mixedCorrectCount, sceneOf, withRollout } from './rollouts';
import { scoreScene } from './scoring';
import type { AnswerClass, LengthCurve, LengthSignal, Population, Subject } from './types';

/** Points of a curve: midpoints of equal parts, so that a threshold at a round share of the limit lies between two. */
const CURVE_POINTS = 64;

/** The middle answer of one class in the mixed group, moved over all lengths while the others stay. */
export async function lengthCurve(
  subject: Subject,
  population: Population,
  of: AnswerClass,
): Promise<LengthCurve> {
  const scene = sceneOf(groupOf(population, mixedCorrectCount(population)));
  const { rollouts } = scene.batch[0]!;
  const members = rollouts.flatMap((rollout, i) => (classOf(rollout) === of ? [i] : []));
  const index = members[Math.floor(members.length / 2)]!;
  const rollout = rollouts[index]!;
  const longest = subject.settings.maxLength - (rollout.totalTokens - rollout.thinkingTokens);
  const curve: LengthCurve = { length: [], reward: [], rewardSlope: [], advantage: [] };
  for (let point = 0; point < CURVE_POINTS; point++) {
    const length = ((point + 0.5) / CURVE_POINTS) * longest;
    const moved = lengthened(rollout, length - rollout.thinkingTokens);
    const at = async (offset: number) => {
      const { rewards, advantages } = await scoreScene(
        subject,
        withRollout(scene, index, lengthened(moved, offset)),
      );
      return [rewards[index]!, advantages[index]!];
    };
    const [reward, advantage] = await at(0);
    const [slope] = await derivatives(at, stepFor(longest), roomOf(moved, subject.settings.maxLength));
    curve.length.push(length);
    curve.reward.push(reward!);
    curve.advantage.push(advantage!);
    curve.rewardSlope.push(slope!);
  }
  return curve;
}

/** @param active whether the reward has a slope at the lengths of the groups looked at */
export function signalOf(curve: LengthCurve, active: boolean): LengthSignal {
  const sloped = curve.length.filter((_, i) => curve.rewardSlope[i] !== 0);
  if (sloped.length > 0 || active) {
    const range: LengthSignal['range'] = sloped.length === 0 ? null : [sloped[0]!, sloped.at(-1)!];
    return { form: 'continuous', range, active };
  }
  const varies = Math.max(...curve.reward) - Math.min(...curve.reward) > 1e-12;
  return { form: varies ? 'steps' : 'none', range: null, active };
}
