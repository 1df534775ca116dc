/** Which groups a model of a given accuracy produces: appendix F of the ACOER paper. */
import { badUsage } from '../base/errors';
import type { CompositionRow } from './types';

/** The paper's accuracies: hard and moderate tasks (appendix F) and its base model on MATH-500 (table 4). */
export const PAPER_ACCURACIES: readonly number[] = [0.2, 0.7, 0.8, 0.888];

/** P(k of n answers are correct), each correct with probability p. */
export function binomial(n: number, k: number, p: number): number {
  let ways = 1;
  for (let i = 1; i <= k; i++) ways *= (n - k + i) / i;
  return ways * p ** k * (1 - p) ** (n - k);
}

/**
 * Probability of each kind of group if answers are correct independently with probability `accuracy`.
 *
 * @param accuracy 0..1
 * @param groupSize G, at least 2
 */
export function compositionRow(accuracy: number, groupSize: number): CompositionRow {
  if (!(accuracy >= 0 && accuracy <= 1) || !Number.isInteger(groupSize) || groupSize < 2) {
    const found = `${accuracy} and ${groupSize}`;
    throw badUsage(`A group needs an accuracy from 0 to 1 and at least 2 answers, not ${found}.`);
  }
  const allCorrect = accuracy ** groupSize;
  const allIncorrect = (1 - accuracy) ** groupSize;
  let mostlyIncorrect = 0;
  for (let k = 0; 2 * k < groupSize; k++) mostlyIncorrect += binomial(groupSize, k, accuracy);
  return {
    accuracy,
    allCorrect,
    allIncorrect,
    mixed: 1 - allCorrect - allIncorrect,
    mostlyIncorrect,
    C: Math.sqrt(accuracy * (1 - accuracy)),
  };
}
