import { resolveLoss } from '../../src/losses';
import { loopCases } from '../helpers/loop-fixture';

interface NormalizerCase {
  lossType: string;
  stepsPerGeneration: number;
  generationTokens: number;
  maxCompletionLength: number;
  lengths: number[];
  masked: number;
  advantages: number[];
  logps: number[][];
  loss: number;
}

/** One on-policy token's loss: every ratio is 1. */
function tokenLoss(type: string, advantage: number, logprob: number): number {
  // cispo caps the ratio at epsilonHigh itself: 0.2 in TRL's defaults.
  if (type === 'cispo') return -Math.min(1, 0.2) * advantage * logprob;
  if (type === 'vespo') return -advantage * logprob;
  if (type === 'sapo') return -((0.5 * 4) / (advantage > 0 ? 1 : 1.05)) * advantage;
  return -advantage;
}

/** The sum that is divided: grpo and sapo average over each sequence's tokens first. */
function lossSum(c: NormalizerCase): number {
  return c.lengths.reduce((sum, length, row) => {
    if (row === c.masked) return sum;
    const tokens = c.logps[row]!.map((logprob) => tokenLoss(c.lossType, c.advantages[row]!, logprob));
    const total = tokens.reduce((a, b) => a + b, 0);
    return sum + (c.lossType === 'grpo' || c.lossType === 'sapo' ? total / length : total);
  }, 0);
}

test.each(loopCases<NormalizerCase>('normalizers'))(
  '$lossType over $stepsPerGeneration step(s) gives the loss of TRL',
  (c) => {
    const unmasked = c.lengths.filter((_, row) => row !== c.masked);
    const normalizer = resolveLoss(c.lossType).normalizer({
      sequences: c.lengths.length,
      tokens: unmasked.reduce((a, b) => a + b, 0),
      generationTokens: c.generationTokens,
      stepsPerGeneration: c.stepsPerGeneration,
      maxCompletionLength: c.maxCompletionLength,
    });
    expect(lossSum(c) / normalizer).toBeCloseTo(c.loss, 10);
  },
);
