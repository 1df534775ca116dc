/** How one answer's reward depends on its length, from 0 to the limit, and what kind of signal that is. */
import { derivatives, stepFor } from './derivative';
import { answersOf } from './pressure';
import { byClass, classOf, groupOf, lengthened, mappedInTurn, sceneOf, withRollout } from './rollouts';
import { scoreScene } from './scoring';
import {
  CLASSES,
  COMPOSITIONS,
  type AnswerClass,
  type LengthCurve,
  type LengthSignal,
  type Population,
  type RewardReport,
  type Scene,
  type Study,
} from './types';
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
  const group = groupOf(population, 'mixed');
  const members = group.rollouts.flatMap((rollout, i) => (classOf(rollout) === kind ? [i] : []));
  return { scene: sceneOf(group), index: members[Math.floor(members.length / 2)]! };
}

/** Varies the middle answer over all lengths while the others stay fixed. */
async function lengthCurve(study: Study, kind: AnswerClass): Promise<LengthCurve> {
  const { scene, index } = middleAnswer(study.population, kind);
  const rollout = scene.batch[0]!.rollouts[index]!;
  const { maxLength } = study.settings;
  const longest = maxLength - (rollout.totalTokens - rollout.thinkingTokens);
  const curve: LengthCurve = { length: [], reward: [], rewardSlope: [], advantage: [] };
  for (let point = 0; point < CURVE_POINTS; point++) {
    const length = ((point + 0.5) / CURVE_POINTS) * longest;
    const at = async (offset: number): Promise<[number, number]> => {
      const moved = lengthened(rollout, length - rollout.thinkingTokens + offset);
      const { rewards, advantages } = await scoreScene(study, withRollout(scene, index, moved));
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
async function activeClasses(study: Study): Promise<Record<AnswerClass, boolean>> {
  const active = byClass(() => false);
  for (const composition of COMPOSITIONS) {
    const scene = sceneOf(groupOf(study.population, composition));
    const { answers } = await answersOf(study, scene);
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

export async function signalsOf(study: Study): Promise<Pick<RewardReport, 'curves' | 'signals'>> {
  const active = await activeClasses(study);
  const curves = await mappedInTurn(CLASSES, (kind) => lengthCurve(study, kind));
  return { curves, signals: byClass((kind) => signalOf(curves[kind], active[kind])) };
}
