/** Groups rows by problem, the unit of resampling, pairing and voting. */
import { needList, needObject } from '../base/border';
import { groupBy, type NonEmpty } from '../base/group-by';
import type { EvalRow } from './summary';

/** The answers to one problem, at least one. */
export type ProblemRows = NonEmpty<EvalRow>;

/** The answers to each problem in sample order, problems in benchmark order. */
export function byProblem(rows: readonly EvalRow[]): ProblemRows[] {
  needList('rows', rows);
  rows.forEach((row, i) => needObject(`rows[${i}]`, row));
  return [...groupBy(rows, ({ index }) => index)]
    .sort(([a], [b]) => a - b)
    .map(([, group]) => group.sort((a, b) => a.sample - b.sample));
}

/** A fixed order of summation: the order in which completions end must not change a mean's last bits. */
export const inOrder = (a: EvalRow, b: EvalRow): number => a.index - b.index || a.sample - b.sample;

/** One number per problem: the sum of `value` over its answers. */
export const sums = (groups: readonly EvalRow[][], value: (row: EvalRow) => number): Float64Array =>
  Float64Array.from(groups, (group) => group.reduce((sum, row) => sum + value(row), 0));
