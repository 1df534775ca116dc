/** Where the lab's groups come from: synthetic or recorded distributions of lengths. */
import { badUsage } from '../base/errors';
import { mean, quantileOfSorted, sampleStd } from '../base/statistics';
import { normalsOf, streamSeed, uniformStream } from '../base/rng';
import type { Rollout } from '../base/types';
import { byClass, classOf } from './rollouts';
import { CLASSES, type AnswerClass, type Population } from './types';

/** Thinking tokens: a normal distribution truncated to 1 and the longest completion. */
export interface LengthDistribution {
  mean: number;
  std: number;
}

export interface SyntheticSettings {
  /** Fraction of correct answers, 0..1. */
  accuracy: number;
  groupSize: number;
  maxLength: number;
  correct: LengthDistribution;
  incorrect: LengthDistribution;
  /** Tokens of the answer after the thinking. */
  answerTokens: number;
  seed: number;
}

/**
 * The paper's group size, length limit and moderate accuracy. The lengths are ours, within the 2,814 to 8,404
 * tokens that its base model uses on levels 1 to 5; the paper does not give their spread.
 */
export const SYNTHETIC_DEFAULTS: SyntheticSettings = {
  accuracy: 0.7,
  groupSize: 16,
  maxLength: 8192,
  correct: { mean: 4000, std: 1200 },
  incorrect: { mean: 5500, std: 1200 },
  answerTokens: 200,
  seed: 42,
};

/** The defaults scaled to another limit. */
export function syntheticDefaults(maxLength: number): SyntheticSettings {
  const share = maxLength / SYNTHETIC_DEFAULTS.maxLength;
  const scaled = ({ mean: center, std }: LengthDistribution) => ({ mean: center * share, std: std * share });
  const { correct, incorrect, answerTokens } = SYNTHETIC_DEFAULTS;
  return {
    ...SYNTHETIC_DEFAULTS,
    maxLength,
    correct: scaled(correct),
    incorrect: scaled(incorrect),
    answerTokens: Math.round(answerTokens * share),
  };
}

/**
 * Draws until the value is within the limits, instead of clipping, so that answers do not pile up at a limit.
 */
function drawLength(
  normal: () => number,
  { mean: center, std }: LengthDistribution,
  longest: number,
): number {
  for (let attempt = 0; attempt < 10_000; attempt++) {
    const length = Math.round(center + std * normal());
    if (length >= 1 && length <= longest) return length;
  }
  const message = `Lengths with mean ${center} and standard deviation ${std} are almost never between 1 and ${longest} tokens, the room the limit leaves for thinking; change them, or raise --max-length.`;
  throw badUsage(message);
}

/** Groups with normally distributed lengths; depends on the seed alone. */
export function syntheticPopulation(settings: SyntheticSettings): Population {
  const { accuracy, groupSize, answerTokens, maxLength, seed } = settings;
  const longest = maxLength - answerTokens;
  return {
    accuracy,
    groupSize,
    answerTokens: byClass(() => answerTokens),
    lengths(kind, count) {
      const normal = normalsOf(uniformStream(streamSeed(seed, 'lab', CLASSES.indexOf(kind))));
      return Array.from({ length: count }, () => drawLength(normal, settings[kind], longest));
    },
  };
}

/**
 * Groups like the recorded ones: their accuracy and quantiles of their lengths. A class that was never
 * recorded uses the lengths of the other.
 */
export function recordedPopulation(rollouts: readonly Rollout[], groupSize: number): Population {
  const own = byClass((kind) => rollouts.filter((rollout) => classOf(rollout) === kind));
  const known = byClass((kind) => (own[kind].length > 0 ? own[kind] : rollouts));
  const sorted = byClass((kind) => known[kind].map((one) => one.thinkingTokens).sort((a, b) => a - b));
  return {
    accuracy: own.correct.length / rollouts.length,
    groupSize,
    answerTokens: byClass((kind) => mean(known[kind].map((one) => one.totalTokens - one.thinkingTokens))),
    // Evenly spaced quantiles.
    lengths: (kind, count) =>
      Array.from({ length: count }, (_, i) => quantileOfSorted(sorted[kind], (i + 0.5) / count)),
  };
}

/** Mean and standard deviation (Bessel) of the lengths of each class in a group of this population. */
export function lengthsOf(population: Population, kind: AnswerClass): { mean: number; std: number | null } {
  const lengths = population.lengths(kind, population.groupSize);
  const std = sampleStd(lengths);
  return { mean: mean(lengths), std: Number.isNaN(std) ? null : std };
}
