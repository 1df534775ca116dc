/**
 * Model of completion lengths: lognormal around a mean that moves over the run, with a spread between prompts
 * (their difficulty) and one within a group. The paper gives the means of the base and the trained model on
 * MATH-500; the spreads are assumptions. Wider or narrower ones change the time of a step by -8% to +6%.
 */
import { normalsOf, streamSeed, uniformStream } from '../base/rng';

/** Mean completion tokens at the first and the last step of a run, before the cap cuts off the longest. */
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
 * The most completions drawn of a step or an evaluation. Of a larger one only a part is drawn, and its cost is scaled;
 * means over so many are within 2% of those over all (test/plan/lengths.slow.test.ts).
 */
export const MOST_DRAWN = 4096;

/** Of a large group only a part is drawn: prompts differ more than the completions of one prompt. */
const MOST_MEMBERS = 32;

export interface DrawnPart {
  prompts: number;
  group: number;
  /** How many completions each drawn one stands for; 1: all are drawn. */
  scale: number;
}

/** The part of `prompts` groups of `group` completions that is drawn. */
export function drawnPart(prompts: number, group: number): DrawnPart {
  if (prompts * group <= MOST_DRAWN) return { prompts, group, scale: 1 };
  const members = Math.min(group, Math.max(MOST_MEMBERS, Math.floor(MOST_DRAWN / prompts)));
  const groups = Math.min(prompts, Math.floor(MOST_DRAWN / members));
  return { prompts: groups, group: members, scale: (prompts * group) / (groups * members) };
}

/** Normal numbers of one stream. They are kept, because only the mean changes along a run. */
class Normals {
  private readonly values: number[] = [];
  private readonly next: () => number;

  constructor(seed: bigint) {
    this.next = normalsOf(uniformStream(seed));
  }

  at(index: number): number {
    while (this.values.length <= index) this.values.push(this.next());
    return this.values[index]!;
  }
}

const streams = new Map<string, Normals>();

function normals(purpose: string, draw: number): Normals {
  const key = `${purpose} ${draw}`;
  const known = streams.get(key) ?? new Normals(streamSeed(1, purpose, draw));
  streams.set(key, known);
  return known;
}

/**
 * Lengths of `prompts` groups of `group` completions with this mean, in whole tokens from 1 to `cap`, group
 * by group. The same arguments give the same lengths.
 */
export function drawLengths(
  mean: number,
  { prompts, group, cap, draw }: { prompts: number; group: number; cap: number; draw: number },
): number[] {
  const normal = normals('plan lengths', draw);
  // Draws 2i and 2i + 1 mirror each other's prompts (antithetic sampling), so means need a quarter of the draws.
  const difficulty = normals('plan prompts', Math.floor(draw / 2));
  const sign = draw % 2 === 0 ? 1 : -1;
  const location = Math.log(mean) - (SIGMA_BETWEEN_PROMPTS ** 2 + SIGMA_WITHIN_GROUP ** 2) / 2;
  return Array.from({ length: prompts * group }, (_, i) => {
    const prompt = location + sign * SIGMA_BETWEEN_PROMPTS * difficulty.at(Math.floor(i / group));
    const tokens = Math.round(Math.exp(prompt + SIGMA_WITHIN_GROUP * normal.at(i)));
    return Math.min(cap, Math.max(1, tokens));
  });
}
