/** pass@k and maj@k for several answers per problem. */
import { AcoerError } from '../base/errors';
import { verifyCompletion } from '#verify';
import type { EvalRow } from './summary';
import { maximum } from '../base/statistics';

/**
 * Probability that at least one of k answers drawn without replacement from n, of which c are correct, is
 * correct: 1 - C(n-c, k) / C(n, k), unbiased (Chen et al. 2021, arXiv 2107.03374, section 2.1). With k > n all
 * answers are drawn: 1 if any is correct, else 0. 0 for k = 0.
 * @throws BAD_ARGUMENT unless n, c and k are whole, 0 <= c <= n and k >= 0
 */
export function passAtK(n: number, c: number, k: number): number {
  if (![n, c, k].every((value) => Number.isSafeInteger(value) && value >= 0) || c > n) {
    throw new AcoerError(
      'BAD_ARGUMENT',
      `passAtK needs whole numbers with 0 <= c <= n and k >= 0, not n = ${n}, c = ${c}, k = ${k}`,
    );
  }
  if (c === 0 || k === 0) return 0;
  if (n - c < k) return 1;
  let none = 1;
  for (let i = n - c + 1; i <= n; i++) none *= 1 - k / i;
  return 1 - none;
}

interface Party {
  answer: string;
  votes: number;
  correct: boolean;
}

/** Whether two extracted answers are equal, as the verifier compares a completion with its reference. */
const sameAnswer = (a: string, b: string): boolean => a === b || verifyCompletion(`\\boxed{${b}}`, a).correct;

/**
 * Fraction of the most frequent answers that are correct: 1 or 0, or in between if several tie (the expected
 * value of picking one of them at random). Answers that the verifier finds equal are counted together; a
 * completion without an answer does not vote.
 */
export function majority(answers: readonly EvalRow[]): number {
  const parties: Party[] = [];
  for (const { verdict } of answers) {
    if (verdict.extracted === null) continue;
    const { extracted, correct } = verdict;
    // Two correct answers are the same answer, however they are written.
    const party = parties.find((p) => (p.correct && correct) || sameAnswer(p.answer, extracted));
    if (party === undefined) parties.push({ answer: extracted, votes: 1, correct });
    else party.votes++;
  }
  const most = Math.max(0, maximum(parties.map(({ votes }) => votes)));
  const winners = parties.filter(({ votes }) => votes === most);
  return winners.length === 0 ? 0 : winners.filter(({ correct }) => correct).length / winners.length;
}

/** maj@k as the mean over the complete blocks of k samples, each of which is a separate vote. */
function majorityOfBlocks(answers: readonly EvalRow[], k: number): number {
  const blocks = Math.floor(answers.length / k);
  let total = 0;
  for (let b = 0; b < blocks; b++) total += majority(answers.slice(b * k, (b + 1) * k));
  return total / blocks;
}

/** 1, 2, 4, ... and the number of samples itself. */
function votesCounted(samples: number): number[] {
  const powers = Array.from({ length: 31 }, (_, i) => 2 ** i).filter((k) => k < samples);
  return [...powers, samples];
}

export interface AtK {
  k: number;
  /** Means over the problems, 0..1. */
  pass: number;
  majority: number;
}

/** Empty if any problem has only one answer. The fewest answers to a problem determine the largest k. */
export function figuresAtK(groups: readonly EvalRow[][]): AtK[] {
  const samples = groups.reduce((least, group) => Math.min(least, group.length), Infinity);
  if (groups.length === 0 || samples < 2) return [];
  const mean = (value: (group: EvalRow[]) => number) =>
    groups.reduce((sum, group) => sum + value(group), 0) / groups.length;
  return votesCounted(samples).map((k) => ({
    k,
    pass: mean((group) => passAtK(group.length, group.filter((row) => row.verdict.correct).length, k)),
    majority: mean((group) => majorityOfBlocks(group, k)),
  }));
}
