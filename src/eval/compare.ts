/** Paired comparison of two evaluations of the same problems: is B better than A, and does it think less? */
import { badInput } from '../base/errors';
import { bootstrap, type BootstrapOptions, bootstrapP, interval, type Interval } from './bootstrap';
import { byProblem, type ProblemRows } from './problems';
import { type EvalRow, per1kTokens } from './summary';

/** Exact McNemar test (1947): does the split of problems that only one side solves differ from 50:50? */
export interface McNemar {
  /** Problems that only A solves, and that only B solves. */
  onlyA: number;
  onlyB: number;
  /** Two-sided. */
  p: number;
}

export interface PairedFigure {
  /** Means over the paired problems. */
  a: number;
  b: number;
  /** b - a, with its 95% interval from the paired bootstrap. */
  difference: number;
  interval: Interval;
  /** Two-sided p of "the difference is 0", from the paired bootstrap. */
  p: number;
}

export interface PairedTokens extends PairedFigure {
  /** b / a - 1, with its 95% interval. */
  change: number;
  changeInterval: Interval;
}

export interface Comparison {
  /** Problems that both sides answered. */
  pairs: number;
  /** Problems of one side only, which are left out. */
  unpairedA: number;
  unpairedB: number;
  /** Fractions, 0..1. */
  accuracy: PairedFigure;
  /** null if a problem has several answers, because then there is no single verdict per problem. */
  mcnemar: McNemar | null;
  thinkingTokens: PairedTokens;
  totalTokens: PairedTokens;
  accuracyPer1kTokens: PairedFigure;
}

/** Two-sided exact p: twice the smaller tail of a binomial with probability 1/2, at most 1. */
export function mcnemarP(onlyA: number, onlyB: number): number {
  const n = onlyA + onlyB;
  let logTerm = -n * Math.LN2;
  let tail = Math.exp(logTerm);
  for (let i = 1; i <= Math.min(onlyA, onlyB); i++) {
    logTerm += Math.log((n - i + 1) / i);
    tail += Math.exp(logTerm);
  }
  return Math.min(1, 2 * tail);
}

type Pair = readonly [a: ProblemRows, b: ProblemRows];

const allDiffer = (groups: readonly ProblemRows[]): boolean =>
  new Set(groups.map(([row]) => row.problemId)).size === groups.length;

/** Problems are paired by id if both sides have ids, else by position. */
function keyOf(a: readonly ProblemRows[], b: readonly ProblemRows[]): (group: ProblemRows) => string {
  const ids = new Set(a.map(([row]) => row.problemId));
  const named = allDiffer(a) && allDiffer(b) && b.some(([row]) => ids.has(row.problemId));
  return named ? ([row]) => row.problemId : ([row]) => String(row.index);
}

function pairUp(a: readonly ProblemRows[], b: readonly ProblemRows[]): Pair[] {
  const key = keyOf(a, b);
  const second = new Map(b.map((group) => [key(group), group]));
  const pairs = a.flatMap((group): Pair[] => {
    const other = second.get(key(group));
    return other === undefined ? [] : [[group, other]];
  });
  if (pairs.length === 0) {
    throw badInput('The two evaluations have no problem in common, neither by id nor by position.');
  }
  const wrong = pairs.find(([[x], [y]]) => (x.gold ?? '').trim() !== (y.gold ?? '').trim());
  if (wrong !== undefined) {
    const [[x], [y]] = wrong;
    throw badInput(
      `Problem ${x.problemId} has the reference answer ${JSON.stringify(x.gold)} in A but ${JSON.stringify(y.gold)} in B; the two evaluations must be of the same problems.`,
    );
  }
  return pairs;
}

const groupMean = (group: readonly EvalRow[], value: (row: EvalRow) => number): number =>
  group.reduce((sum, row) => sum + value(row), 0) / group.length;

/** Columns of each side by pair: accuracy, thinking tokens, total tokens; means over the answers. */
function sideColumns(pairs: readonly Pair[]): Float64Array[] {
  const values = [
    (row: EvalRow) => Number(row.verdict.correct),
    (row: EvalRow) => row.thinkingTokens,
    (row: EvalRow) => row.totalTokens,
  ];
  return values.flatMap((value) =>
    ([0, 1] as const).map((side) => Float64Array.from(pairs, (pair) => groupMean(pair[side], value))),
  );
}

type Two = [a: number, b: number];

/** The four figures of both sides, from the column sums over a resample of the pairs. */
function figuresOf(
  sums: ArrayLike<number>,
  pairs: number,
): Record<'accuracy' | 'thinking' | 'total' | 'per1k', Two> {
  const means = (column: number): Two => [sums[column]! / pairs, sums[column + 1]! / pairs];
  const [accuracy, thinking, total] = [means(0), means(2), means(4)];
  const per1k: Two = [per1kTokens(accuracy[0], total[0]), per1kTokens(accuracy[1], total[1])];
  return { accuracy, thinking, total, per1k };
}

function paired([a, b]: readonly [number, number], differences: Float64Array): PairedFigure {
  return { a, b, difference: b - a, interval: interval(differences), p: bootstrapP(differences) };
}

function mcnemar(pairs: readonly Pair[]): McNemar | null {
  if (pairs.some(([a, b]) => a.length > 1 || b.length > 1)) return null;
  const only = (x: 0 | 1, y: 0 | 1) =>
    pairs.filter((pair) => pair[x][0].verdict.correct && !pair[y][0].verdict.correct).length;
  const [onlyA, onlyB] = [only(0, 1), only(1, 0)];
  return { onlyA, onlyB, p: mcnemarP(onlyA, onlyB) };
}

/**
 * Compares B with A. Problems are paired by id, or by position if ids are missing or not unique.
 * @throws BAD_INPUT if they have no problem in common or a pair's reference answers differ
 */
export function compare(
  a: readonly EvalRow[],
  b: readonly EvalRow[],
  options: BootstrapOptions = {},
): Comparison {
  const [groupsA, groupsB] = [byProblem(a), byProblem(b)];
  const pairs = pairUp(groupsA, groupsB);
  const columns = sideColumns(pairs);
  const minus = ([x, y]: Two): number => y - x;
  const ratio = ([x, y]: Two): number => y / x - 1;
  const draws = bootstrap(
    columns,
    (_counts, ...sums) => {
      const { accuracy, thinking, total, per1k } = figuresOf(sums, pairs.length);
      return [minus(accuracy), minus(thinking), minus(total), minus(per1k), ratio(thinking), ratio(total)];
    },
    options,
  );
  const all = Float64Array.from(columns, (column) => column.reduce((sum, value) => sum + value, 0));
  const { accuracy, thinking, total, per1k } = figuresOf(all, pairs.length);
  const tokens = (means: Two, differences: Float64Array, changes: Float64Array): PairedTokens => ({
    ...paired(means, differences),
    change: ratio(means),
    changeInterval: interval(changes),
  });
  return {
    pairs: pairs.length,
    unpairedA: groupsA.length - pairs.length,
    unpairedB: groupsB.length - pairs.length,
    accuracy: paired(accuracy, draws[0]!),
    mcnemar: mcnemar(pairs),
    thinkingTokens: tokens(thinking, draws[1]!, draws[4]!),
    totalTokens: tokens(total, draws[2]!, draws[5]!),
    accuracyPer1kTokens: paired(per1k, draws[3]!),
  };
}
