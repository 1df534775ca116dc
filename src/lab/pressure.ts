/** d(advantage)/d(length): how a group pushes on the length of each of its answers. */
import { maximum, mean, sampleStd } from '../base/statistics';
import type { Group, Rollout } from '../base/types';
import { derivatives, stepFor, type Room } from './derivative';
import { CLASSES, classOf, groupOf, lengthened, sceneOf, withRollout } from './rollouts';
import { scoreScene, type Scored } from './scoring';
import type {
  AnswerClass,
  ClassPressure,
  CompositionSweep,
  LabAnswer,
  Population,
  Scene,
  SpreadPoint,
  Subject,
} from './types';

/** Factors on the spread of lengths, from the original group to a nearly uniform one. */
export const SPREAD_FACTORS: readonly number[] = [1, 1 / 4, 1 / 16, 1 / 64, 1 / 256];

const roomOf = (rollout: Rollout, maxLength: number): Room => ({
  below: rollout.thinkingTokens,
  above: maxLength - rollout.totalTokens,
});

const lengthsIn = (group: Group, kind: AnswerClass): number[] =>
  group.rollouts.filter((rollout) => classOf(rollout) === kind).map((rollout) => rollout.thinkingTokens);

/** Standard deviation (Bessel) of one class's lengths in a group; null for fewer than two answers. */
function spreadOf(group: Group, kind: AnswerClass): number | null {
  const lengths = lengthsIn(group, kind);
  return lengths.length < 2 ? null : sampleStd(lengths);
}

interface Slopes {
  reward: number;
  advantage: number;
  advantageNoEpsilon: number;
}

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
  const [reward, advantage, advantageNoEpsilon] = await derivatives(
    sampled,
    h,
    roomOf(rollout, subject.settings.maxLength),
  );
  const { scale, epsilon } = subject.settings;
  // Near a std of 0 the smallest change of one reward swings the advantage fully, so the slope is infinite.
  const infinite = zeroVariance && scale === 'group' && reward !== 0 ? Math.sign(reward!) * Infinity : null;
  return {
    reward: reward!,
    advantage: epsilon === 0 ? (infinite ?? advantage!) : advantage!,
    advantageNoEpsilon: infinite ?? advantageNoEpsilon!,
  };
}

interface Pressed {
  rollout: Rollout;
  reward: number;
  advantage: number;
  slopes: Slopes;
}

/**
 * Every answer of the scene's own group with its reward, its advantage and their derivatives by its own
 * length.
 */
async function pressScene(subject: Subject, scene: Scene): Promise<{ pressed: Pressed[]; scored: Scored }> {
  const scored = await scoreScene(subject, scene);
  const { rollouts } = scene.batch[scene.own]!;
  const pressed: Pressed[] = [];
  for (const [i, rollout] of rollouts.entries()) {
    const slopes = await slopesOf(subject, scene, i, scored.zeroVariance);
    pressed.push({ rollout, reward: scored.rewards[i]!, advantage: scored.advantages[i]!, slopes });
  }
  return { pressed, scored };
}

/** The answers of a scene's own group, in order. */
export async function answersOf(
  subject: Subject,
  scene: Scene,
): Promise<{ answers: LabAnswer[]; zeroVariance: boolean }> {
  const { pressed, scored } = await pressScene(subject, scene);
  const answers = pressed.map(({ rollout, reward, advantage, slopes }): LabAnswer => ({
    correct: rollout.verdict.correct,
    thinkingTokens: rollout.thinkingTokens,
    totalTokens: rollout.totalTokens,
    reward,
    advantage,
    rewardSlope: slopes.reward,
    advantageSlope: slopes.advantage,
  }));
  return { answers, zeroVariance: scored.zeroVariance };
}

function classPressure(pressed: readonly Pressed[]): ClassPressure | null {
  if (pressed.length === 0) return null;
  const meanOf = (value: (answer: Pressed) => number) => mean(pressed.map(value));
  return {
    count: pressed.length,
    rewardSlope: meanOf(({ slopes }) => slopes.reward),
    advantageSlope: meanOf(({ slopes }) => slopes.advantage),
    advantageSlopeNoEpsilon: meanOf(({ slopes }) => slopes.advantageNoEpsilon),
    largestAdvantage: maximum(pressed.map(({ advantage }) => Math.abs(advantage))),
    activeShare: meanOf(({ slopes }) => (slopes.reward !== 0 ? 1 : 0)),
    shorterShare: meanOf(({ slopes }) => (slopes.advantage < 0 ? 1 : 0)),
    longerShare: meanOf(({ slopes }) => (slopes.advantage > 0 ? 1 : 0)),
  };
}

/** The group with every length pulled towards its class's mean. */
function concentrated(group: Group, factor: number): Group {
  const centers = {
    correct: mean(lengthsIn(group, 'correct')),
    incorrect: mean(lengthsIn(group, 'incorrect')),
  };
  const rollouts = group.rollouts.map((rollout) => {
    const distance = rollout.thinkingTokens - centers[classOf(rollout)];
    return lengthened(rollout, (factor - 1) * distance);
  });
  return { ...group, rollouts };
}

async function spreadPoint(subject: Subject, group: Group, factor: number): Promise<SpreadPoint> {
  const narrowed = concentrated(group, factor);
  const { pressed } = await pressScene(subject, sceneOf(narrowed));
  const of = (wanted: AnswerClass) =>
    classPressure(pressed.filter(({ rollout }) => classOf(rollout) === wanted));
  return {
    factor,
    lengthStd: { correct: spreadOf(narrowed, 'correct'), incorrect: spreadOf(narrowed, 'incorrect') },
    correct: of('correct'),
    incorrect: of('incorrect'),
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

/** Measures a group of `population` as its lengths converge. */
export async function sweepSpread(
  subject: Subject,
  population: Population,
  correctCount: number,
): Promise<CompositionSweep> {
  const group = groupOf(population, correctCount);
  const points: SpreadPoint[] = [];
  for (const factor of SPREAD_FACTORS) points.push(await spreadPoint(subject, group, factor));
  const [correct, incorrect] = CLASSES.map((kind) => orderOf(points, kind));
  return { points, order: { correct: correct!, incorrect: incorrect! } };
}
