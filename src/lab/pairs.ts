/**
 * Proposition 1 of the ACOER paper: two answers of one class. As it says, |A| is 1 whatever the lengths are (1 / sqrt(2)
 * with the sample standard deviation that GRPO implementations use), so |A| itself is bounded; what grows without
 * bound as the lengths meet is the advantage per token between the two.
 */
import type { Group } from '../types';
import { makeRollout, namedPrompt, sceneOf } from './rollouts';
import { scoreScene } from './scoring';
import { lengthsOf } from './population';
import type { AnswerClass, PairPoint, Population, Subject } from './types';

/** Tokens between the two answers. */
export const PAIR_DIFFERENCES: readonly number[] = [1024, 256, 64, 16, 4, 1];

function pairOf(population: Population, of: AnswerClass, difference: number): Group {
  const prompt = namedPrompt('lab', 0);
  // A difference beyond the mean would leave the shorter one without a length.
  const center = Math.max(lengthsOf(population, of).mean, difference / 2);
  const rollouts = [-1, 1].map((side, sample) => {
    const length = center + (side * difference) / 2;
    return makeRollout(prompt, sample, of === 'correct', length, length + population.answerTokens[of]);
  });
  return { prompt, rollouts };
}

export async function pairPoints(
  subject: Subject,
  population: Population,
  of: AnswerClass,
): Promise<PairPoint[]> {
  const points: PairPoint[] = [];
  for (const difference of PAIR_DIFFERENCES) {
    const scored = await scoreScene(subject, sceneOf(pairOf(population, of, difference)));
    const { advantages, advantagesNoEpsilon } = scored;
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
