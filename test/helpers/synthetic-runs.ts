/** Types for scripts/studies/synthetic-runs.cjs. */
import type { KnownMetrics } from '../../src/base/metric-names';

export type Solve = readonly [number, number];
export interface Options {
  seed: number;
  solve: Solve;
  shape: { prompts: number; completions: number };
  steps: number;
  thinking: readonly [share: number, reached: number];
  fall?: { kind: 'spread' | 'factor' | 'lost'; points: number; after: number; ramp: number };
}
export interface Course {
  seed: number;
  shape: { prompts: number; completions: number };
  steps: number;
  accuracy: (step: number) => number;
  thinking: (step: number) => number;
  wrongLonger?: number;
}
interface SyntheticRuns {
  courseRun: (options: Course) => Iterable<KnownMetrics>;
  syntheticRun: (options: Options) => Iterable<KnownMetrics>;
  beta: (random: () => number, a: number, b: number) => number;
  FALLS: Record<string, (random: () => number, solve: Solve, points: number) => number>;
  uniform: (seed: number) => () => number;
}
// eslint-disable-next-line @typescript-eslint/no-require-imports
const runs = require('../../scripts/studies/synthetic-runs.cjs') as SyntheticRuns;
export const { courseRun, syntheticRun, beta, FALLS, uniform } = runs;
