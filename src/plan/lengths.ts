/**
 * Model of completion lengths: lognormal around a mean that moves over the run, with a spread between prompts
 * (their difficulty) and one within a group. The paper gives the means of the base and the trained model on
 * MATH-500; the spreads are assumptions. Wider or narrower ones change the time of a step by -8% to +6%.
 */
import { normalsOf, streamSeed, uniformStream } from '../rng';

/** Mean completion tokens at the first and the last step of a run, before the cap truncates the longest. */
export interface LengthTrajectory {
  first: number;
  last: number;
}

/** MATH-500 under ACOER (paper, table 3): total tokens of the base model and after training, of 8,192. */
const PAPER = { first: 5553, last: 2134, cap: 8192 };

/** The paper's lengths, relative to the cap. */
export function defaultTrajectory(maxCompletionLength: number): LengthTrajectory {
  const scale = maxCompletionLength / PAPER.cap;
  return { first: PAPER.first * scale, last: PAPER.last * scale };
}

const SIGMA_BETWEEN_PROMPTS = 0.5;
const SIGMA_WITHIN_GROUP = 0.35;

/**
 * Lengths of `prompts` groups of `group` completions with this mean, in whole tokens from 1 to `cap`, group
 * by group. The same arguments give the same lengths.
 */
export function drawLengths(
  mean: number,
  { prompts, group, cap, draw }: { prompts: number; group: number; cap: number; draw: number },
): number[] {
  const normal = normalsOf(uniformStream(streamSeed(1, 'plan lengths', draw)));
  // Draws 2i and 2i + 1 mirror each other's prompts (antithetic sampling), so means need a quarter of the
  // draws.
  const difficulty = normalsOf(uniformStream(streamSeed(1, 'plan prompts', Math.floor(draw / 2))));
  const sign = draw % 2 === 0 ? 1 : -1;
  const location = Math.log(mean) - (SIGMA_BETWEEN_PROMPTS ** 2 + SIGMA_WITHIN_GROUP ** 2) / 2;
  return Array.from(
    { length: prompts },
    () => location + sign * SIGMA_BETWEEN_PROMPTS * difficulty(),
  ).flatMap((prompt) =>
    Array.from({ length: group }, () => {
      const tokens = Math.round(Math.exp(prompt + SIGMA_WITHIN_GROUP * normal()));
      return Math.min(cap, Math.max(1, tokens));
    }),
  );
}
