/** d(advantage)/d(length): how a group pushes on the length of each of its answers. */
import { maximum, mean, sampleStd } from '../base/statistics';
import type { Group } from '../base/types';
import { derivatives, stepFor } from './derivative';
import { byClass, classOf, groupOf, lengthened, sceneOf, withRollout } from './rollouts';
import { scoreScene } from './scoring';
import type {
  AnswerClass,
  ClassPressure,
  Composition,
  CompositionSweep,
  LabAnswer,
  Scene,
  SpreadPoint,
  Study,
  Subject,
} from './types';

/** Factors on the spread of lengths, from the original group to a nearly uniform one. */
export const SPREAD_FACTORS: readonly number[] = [1, 1 / 4, 1 / 16, 1 / 64, 1 / 256];

const lengthsIn = (group: Group, kind: AnswerClass): number[] =>
  group.rollouts.filter((rollout) => classOf(rollout) === kind).map((rollout) => rollout.thinkingTokens);

/** Standard deviation (Bessel) of one class's lengths in a group; null for fewer than two answers. */
function spreadOf(group: Group, kind: AnswerClass): number | null {
  const lengths = lengthsIn(group, kind);
  return lengths.length < 2 ? null : sampleStd(lengths);
}

/** An answer, and what only the sweeps need of it. */
interface Pressed extends LabAnswer {
  advantageSlopeNoEpsilon: number;
}

type Slopes = Pick<Pressed, 'rewardSlope' | 'advantageSlope' | 'advantageSlopeNoEpsilon'>;

async function slopesOf(
  subject: Subject,
  scene: Scene,
  index: number,
  zeroVariance: boolean,
): Promise<Slopes> {
  const group = scene.batch[scene.own]!;
  const rollout = group.rollouts[index]!;
  const h = stepFor(spreadOf(group, classOf(rollout)) ?? 1);
  const sampled = async (offset: number): Promise<number[]> => {
    const scored = await scoreScene(subject, withRollout(scene, index, lengthened(rollout, offset)));
    return [scored.rewards[index]!, scored.advantages[index]!, scored.advantagesNoEpsilon[index]!];
  };
  const { scale, epsilon, maxLength } = subject.settings;
  const room = { below: rollout.thinkingTokens, above: maxLength - rollout.totalTokens };
  const [reward, advantage, advantageNoEpsilon] = await derivatives(sampled, h, room);
  // Near a std of 0 the smallest change of one reward swings the advantage fully, so the slope is infinite.
  const infinite = zeroVariance && scale === 'group' && reward !== 0 ? Math.sign(reward!) * Infinity : null;
  return {
    rewardSlope: reward!,
    advantageSlope: epsilon === 0 ? (infinite ?? advantage!) : advantage!,
    advantageSlopeNoEpsilon: infinite ?? advantageNoEpsilon!,
  };
}

/** The answers of the scene's own group, in order. */
async function press(subject: Subject, scene: Scene): Promise<{ pressed: Pressed[]; zeroVariance: boolean }> {
  const { rewards, advantages, zeroVariance } = await scoreScene(subject, scene);
  const pressed: Pressed[] = [];
  for (const [i, { verdict, thinkingTokens, totalTokens }] of scene.batch[scene.own]!.rollouts.entries()) {
    pressed.push({
      correct: verdict.correct,
      thinkingTokens,
      totalTokens,
      reward: rewards[i]!,
      advantage: advantages[i]!,
      ...(await slopesOf(subject, scene, i, zeroVariance)),
    });
  }
  return { pressed, zeroVariance };
}

/** The same as they are reported. */
export async function answersOf(
  subject: Subject,
  scene: Scene,
): Promise<{ answers: LabAnswer[]; zeroVariance: boolean }> {
  const { pressed, zeroVariance } = await press(subject, scene);
  return { answers: pressed.map(({ advantageSlopeNoEpsilon: _, ...answer }) => answer), zeroVariance };
}

function classPressure(pressed: readonly Pressed[]): ClassPressure | null {
  if (pressed.length === 0) return null;
  const meanOf = (value: (answer: Pressed) => number) => mean(pressed.map(value));
  return {
    count: pressed.length,
    rewardSlope: meanOf((answer) => answer.rewardSlope),
    advantageSlope: meanOf((answer) => answer.advantageSlope),
    advantageSlopeNoEpsilon: meanOf((answer) => answer.advantageSlopeNoEpsilon),
    largestAdvantage: maximum(pressed.map(({ advantage }) => Math.abs(advantage))),
    activeShare: meanOf(({ rewardSlope }) => (rewardSlope !== 0 ? 1 : 0)),
    shorterShare: meanOf(({ advantageSlope }) => (advantageSlope < 0 ? 1 : 0)),
    longerShare: meanOf(({ advantageSlope }) => (advantageSlope > 0 ? 1 : 0)),
  };
}

/** The group with every length pulled towards its class's mean. */
function concentrated(group: Group, factor: number): Group {
  const centers = byClass((kind) => mean(lengthsIn(group, kind)));
  const rollouts = group.rollouts.map((rollout) => {
    const distance = rollout.thinkingTokens - centers[classOf(rollout)];
    return lengthened(rollout, (factor - 1) * distance);
  });
  return { ...group, rollouts };
}

async function spreadPoint(subject: Subject, group: Group, factor: number): Promise<SpreadPoint> {
  const narrowed = concentrated(group, factor);
  const { pressed } = await press(subject, sceneOf(narrowed));
  return {
    factor,
    lengthStd: byClass((kind) => spreadOf(narrowed, kind)),
    ...byClass((kind) => classPressure(pressed.filter(({ correct }) => correct === (kind === 'correct')))),
  };
}

/** The exponent between the two narrowest points, where the group's original spread no longer matters. */
function orderOf(points: readonly SpreadPoint[], kind: AnswerClass): number | null {
  const [wide, narrow] = points.slice(-2);
  const [from, to] = [wide?.[kind], narrow?.[kind]];
  if (!from || !to || !(narrow!.lengthStd[kind]! > 0)) return null;
  if (from.advantageSlopeNoEpsilon === 0 || to.advantageSlopeNoEpsilon === 0) return null;
  const growth = Math.abs(to.advantageSlopeNoEpsilon / from.advantageSlopeNoEpsilon);
  return Math.log(growth) / Math.log(wide!.factor / narrow!.factor);
}

/** Measures a group of the population as its lengths converge. */
export async function sweepSpread(study: Study, composition: Composition): Promise<CompositionSweep> {
  const group = groupOf(study.population, composition);
  const points: SpreadPoint[] = [];
  for (const factor of SPREAD_FACTORS) points.push(await spreadPoint(study, group, factor));
  return { points, order: byClass((kind) => orderOf(points, kind)) };
}
