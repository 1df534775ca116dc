/** How one answer's reward depends on its length, from 0 to the limit, and what kind of signal that is. */
import { derivatives, stepFor } from './derivative';
import { answersOf } from './pressure';
import {
  classOf,
  correctCountOf,
  groupOf,
  lengthened,
  mixedCorrectCount,
  sceneOf,
  withRollout,
} from './rollouts';
import { scoreScene } from './scoring';
import { COMPOSITIONS } from './types';
import type { AnswerClass, LengthCurve, LengthSignal, Population, Scene, Subject } from './types';
import { maximum, minimum } from '../base/statistics';

/**
 * Number of points of a curve. They are midpoints of equal parts, so that a threshold at a round fraction of
 * the limit falls between two.
 */
const CURVE_POINTS = 64;

/** Reward differences below this are rounding errors. */
const SAME_REWARD = 1e-12;

/** The answer in the middle of one class in the mixed group. */
function middleAnswer(population: Population, kind: AnswerClass): { scene: Scene; index: number } {
  const group = groupOf(population, mixedCorrectCount(population));
  const members = group.rollouts.flatMap((rollout, i) => (classOf(rollout) === kind ? [i] : []));
  return { scene: sceneOf(group), index: members[Math.floor(members.length / 2)]! };
}

/** Varies the middle answer over all lengths while the others stay fixed. */
async function lengthCurve(
  subject: Subject,
  population: Population,
  kind: AnswerClass,
): Promise<LengthCurve> {
  const { scene, index } = middleAnswer(population, kind);
  const rollout = scene.batch[0]!.rollouts[index]!;
  const { maxLength } = subject.settings;
  const longest = maxLength - (rollout.totalTokens - rollout.thinkingTokens);
  const curve: LengthCurve = { length: [], reward: [], rewardSlope: [], advantage: [] };
  for (let point = 0; point < CURVE_POINTS; point++) {
    const length = ((point + 0.5) / CURVE_POINTS) * longest;
    const at = async (offset: number): Promise<[number, number]> => {
      const moved = lengthened(rollout, length - rollout.thinkingTokens + offset);
      const { rewards, advantages } = await scoreScene(subject, withRollout(scene, index, moved));
      return [rewards[index]!, advantages[index]!];
    };
    const [reward, advantage] = await at(0);
    const room = { below: length, above: longest - length };
    const [slope] = await derivatives(at, stepFor(longest), room);
    curve.length.push(length);
    curve.reward.push(reward);
    curve.advantage.push(advantage);
    curve.rewardSlope.push(slope!);
  }
  return curve;
}

/** Whether the reward has a slope at some answer of each class, in any composition. */
async function activeClasses(
  subject: Subject,
  population: Population,
): Promise<Record<AnswerClass, boolean>> {
  const active = { correct: false, incorrect: false };
  for (const composition of COMPOSITIONS) {
    const scene = sceneOf(groupOf(population, correctCountOf(composition, population)));
    const { answers } = await answersOf(subject, scene);
    for (const { correct, rewardSlope } of answers) {
      if (rewardSlope !== 0) active[correct ? 'correct' : 'incorrect'] = true;
    }
  }
  return active;
}

function signalOf({ length, reward, rewardSlope }: LengthCurve, active: boolean): LengthSignal {
  const sloped = length.filter((_, i) => rewardSlope[i] !== 0);
  if (sloped.length > 0 || active) {
    return { form: 'continuous', range: sloped.length === 0 ? null : [sloped[0]!, sloped.at(-1)!], active };
  }
  const varies = maximum(reward) - minimum(reward) > SAME_REWARD;
  return { form: varies ? 'steps' : 'none', range: null, active };
}

export interface Signals {
  curves: Record<AnswerClass, LengthCurve>;
  signals: Record<AnswerClass, LengthSignal>;
}

export async function signalsOf(subject: Subject, population: Population): Promise<Signals> {
  const active = await activeClasses(subject, population);
  const correct = await lengthCurve(subject, population, 'correct');
  const incorrect = await lengthCurve(subject, population, 'incorrect');
  const signals = {
    correct: signalOf(correct, active.correct),
    incorrect: signalOf(incorrect, active.incorrect),
  };
  return { curves: { correct, incorrect }, signals };
}
