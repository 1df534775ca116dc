/** Every method against the base model and against ACOER, paired by problem and seed, corrected for their number. */
import { isDeepStrictEqual } from 'node:util';
import type { Measured, Quantity } from './measured';
import { rowsOf } from './measured';
import { acoerOf, baseOf, endOf, type Method, type RunResult, type SweepResults } from './results';
import { change, difference, holm, overSeeds, type SeedEstimate } from './statistics';

/** Called a difference if its corrected p is below this. */
export const SIGNIFICANT = 0.05;
/** What is tested: accuracy by its difference, a fraction; thinking by its change, a fraction of what it was. */
export const TESTED = ['accuracy', 'thinkingTokens'] as const satisfies readonly Quantity[];
export type Tested = (typeof TESTED)[number];
export type Against = 'base' | 'acoer';

export interface Comparison {
  method: Method;
  against: Against;
  benchmark: string;
  quantity: Tested;
  /** Of the method from what it is compared with. */
  estimate: SeedEstimate;
  /** Corrected by Holm over all comparisons with the same model; null: not tested. */
  p: number | null;
}

/** Two evaluations of the same problems for each seed, what is compared with first. */
type Pairs = readonly (readonly [Measured, Measured])[];

/** The change of a quantity from the first side to the second; null: no pairs, or the answers were not kept. */
export function pairedEstimate(
  pairs: Pairs,
  quantity: Quantity,
  level: string | null = null,
): SeedEstimate | null {
  if (pairs.length === 0) return null;
  const statistic = quantity === 'accuracy' ? difference : change;
  const rows = rowsOf([...pairs.map(([a]) => a), ...pairs.map(([, b]) => b)], quantity, level);
  if (rows !== null) return overSeeds([rows.slice(0, pairs.length), rows.slice(pairs.length)], statistic);
  if (level !== null) return null;
  // Means alone have no interval.
  const mean = (side: 0 | 1) => pairs.reduce((sum, pair) => sum + pair[side][quantity], 0) / pairs.length;
  return { seeds: pairs.length, value: statistic(mean(0), mean(1)), interval: null, p: null };
}

const both = <T>(a: T | null, b: T | null): (readonly [T, T])[] => (a === null || b === null ? [] : [[a, b]]);

export const withBase = ({ runs }: Method, benchmark: string): Pairs =>
  runs.flatMap((run) => both(baseOf(run, benchmark), endOf(run, benchmark)));

function withOther({ runs }: Method, other: Method, benchmark: string): Pairs {
  const ofSeed = (seed: number): RunResult | undefined => other.runs.find(({ run }) => run.seed === seed);
  return runs.flatMap((own) => {
    const paired = ofSeed(own.run.seed);
    return paired === undefined ? [] : both(endOf(paired, benchmark), endOf(own, benchmark));
  });
}

/** The method with the reward ACOER at the same point of the grid; null: there is none, or it is this one. */
export function acoerFor(method: Method, methods: readonly Method[]): Method | null {
  const point = method.runs[0]!.run.point;
  const found = acoerOf(methods).find(({ runs }) => isDeepStrictEqual(runs[0]!.run.point, point)) ?? null;
  return found === method ? null : found;
}

function family(
  { methods, benchmarks }: SweepResults,
  against: Against,
  pairsOf: (method: Method, benchmark: string) => Pairs,
): Comparison[] {
  const all = methods.flatMap((method) =>
    benchmarks.flatMap((benchmark) => {
      const pairs = pairsOf(method, benchmark);
      return TESTED.flatMap((quantity): Comparison[] => {
        const estimate = pairedEstimate(pairs, quantity);
        return estimate === null ? [] : [{ method, against, benchmark, quantity, estimate, p: null }];
      });
    }),
  );
  const adjusted = holm(all.map(({ estimate }) => estimate.p));
  return all.map((one, i) => ({ ...one, p: adjusted[i]! }));
}

/** All comparisons with the base model, then all with ACOER: each is a family of its own for Holm's correction. */
export function comparisonsOf(results: SweepResults): Comparison[] {
  const { methods } = results;
  return [
    ...family(results, 'base', withBase),
    ...family(results, 'acoer', (method, benchmark) => {
      const other = acoerFor(method, methods);
      return other === null ? [] : withOther(method, other, benchmark);
    }),
  ];
}

/** Whether a comparison shows a difference after the correction. */
export const isShown = ({ p }: Comparison): boolean => p !== null && p < SIGNIFICANT;
