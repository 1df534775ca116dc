/** The phases in which the tiny model is trained. */
import type { RandomStream } from '../../src/data/random';
import type { Tokenizer } from '../../src/tokenizer';
import { drawDrill, drawExample, type Example } from './batches';
import { DOUBTING, PLAIN, type TraceStyle, VERBOSE } from './corpus';

export type Draw = (tokenizer: Tokenizer, random: RandomStream) => Example;

export interface Phase {
  name: string;
  draw: Draw;
  steps: number;
  tokensPerStep: number;
  /** Peak after a linear warm-up, followed by a cosine down to `finalRate` times this. */
  learningRate: number;
  finalRate: number;
  warmupSteps: number;
  /** Whether the model can answer questions afterwards and is worth evaluating. */
  answers?: boolean;
}

const drill =
  (lines: number, operationsPerLine: number[]): Draw =>
  (tokenizer, random) =>
    drawDrill(tokenizer, { operationsPerLine, lines }, random);
const traces =
  (style: TraceStyle): Draw =>
  (tokenizer, random) =>
    drawExample(tokenizer, style, random);
/** Examples of `first` with this probability, else of `second`. */
const either =
  (chance: number, first: Draw, second: Draw): Draw =>
  (tokenizer, random) =>
    (random.uniform() < chance ? first : second)(tokenizer, random);

const MERGED_LINES = drill(4, [0.2, 0.6, 0.2]);

/**
 * Arithmetic comes first and alone: in whole traces its few tokens drown among the copied ones, and the model
 * only learns the sum of two operations if it occurs at the same place many times. Then the way through a
 * chain; then, with drills against forgetting, doubts and merged lines; and last the way the finished model
 * thinks.
 */
export const PHASES: readonly Phase[] = [
  { name: 'one operation', draw: drill(8, [1]), steps: 200, tokensPerStep: 2048, ...rates(3e-3, 1, 50) },
  {
    name: 'two operations',
    draw: drill(1, [0.2, 0.8]),
    steps: 200,
    tokensPerStep: 4096,
    ...rates(2e-3, 1, 20),
  },
  { name: 'drill', draw: MERGED_LINES, steps: 300, tokensPerStep: 8192, ...rates(2e-3, 0.3, 20) },
  {
    name: 'plain',
    draw: either(0.1, MERGED_LINES, traces(PLAIN)),
    steps: 1500,
    tokensPerStep: 4096,
    ...rates(2e-3, 0.3, 50),
    answers: true,
  },
  {
    name: 'doubting',
    draw: either(0.3, MERGED_LINES, traces(DOUBTING)),
    steps: 300,
    tokensPerStep: 4096,
    ...rates(2e-3, 0.3, 30),
    answers: true,
  },
  {
    name: 'verbose',
    draw: either(0.15, MERGED_LINES, traces(VERBOSE)),
    steps: 1500,
    tokensPerStep: 8192,
    ...rates(3e-3, 0.02, 30),
    answers: true,
  },
];

function rates(learningRate: number, finalRate: number, warmupSteps: number) {
  return { learningRate, finalRate, warmupSteps };
}
