/**
 * Proposition 1 of the ACOER paper: two answers of one class. As it says, |A| is 1 whatever the lengths (1 /
 * sqrt(2) with the sample standard deviation that GRPO implementations use), so |A| itself is bounded. What
 * grows without bound as the lengths converge is the advantage per token between the two.
 */
import type { Group } from '../base/types';
import { makeRollout, namedPrompt, sceneOf } from './rollouts';
import { scoreScene } from './scoring';
import { lengthsOf } from './population';
import type { AnswerClass, PairPoint, Study } from './types';

/** Tokens between the two answers. */
const PAIR_DIFFERENCES: readonly number[] = [1024, 256, 64, 16, 4, 1];

/** The most thinking a completion has room for. */
const longestOf = ({ settings, population }: Study, kind: AnswerClass): number =>
  settings.maxLength - population.answerTokens[kind];

/** A pair around the mean, or as near to it as the limits on length allow. */
function pairOf(study: Study, kind: AnswerClass, difference: number): Group {
  const { population } = study;
  const prompt = namedPrompt('lab', 0);
  const most = longestOf(study, kind) - difference / 2;
  const center = Math.max(Math.min(lengthsOf(population, kind).mean, most), difference / 2);
  const rollouts = [-1, 1].map((side, sample) => {
    const length = center + (side * difference) / 2;
    return makeRollout(prompt, sample, kind === 'correct', length, length + population.answerTokens[kind]);
  });
  return { prompt, rollouts };
}

export async function pairPoints(study: Study, kind: AnswerClass): Promise<PairPoint[]> {
  const points: PairPoint[] = [];
  const longest = longestOf(study, kind);
  for (const difference of PAIR_DIFFERENCES.filter((each) => each <= longest)) {
    const scene = sceneOf(pairOf(study, kind, difference));
    const { advantages, advantagesNoEpsilon } = await scoreScene(study, scene);
    points.push({
      difference,
      advantage: Math.abs(advantages[0]!),
      advantageNoEpsilon: Math.abs(advantagesNoEpsilon[0]!),
      slope: (advantages[1]! - advantages[0]!) / difference,
      slopeNoEpsilon: (advantagesNoEpsilon[1]! - advantagesNoEpsilon[0]!) / difference,
    });
  }
  return points;
}
