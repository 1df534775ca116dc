/** Which completions of a run `acoer show` prints. */
import { didYouMean } from '../../config';
import { type AcoerError, badInput } from '../../base/errors';
import { medianItem } from '../../base/statistics';
import {
  readCompletions,
  runTables,
  type RunDirectory,
  type RunTable,
  type StoredCompletion,
} from '../../run';

export interface Wanted {
  step?: number;
  /** Id of a problem. */
  problem?: string;
  sample?: number;
  /** Only correct ones, or only wrong ones. */
  correct?: boolean;
  evaluation?: boolean;
}

/** The completions of a table that are wanted. */
export interface Selection {
  table: RunTable;
  rows: StoredCompletion[];
}

/** Why there is nothing to show, and what to do. */
function nothingYet(run: RunDirectory, completionsSteps: number, what: string): AcoerError {
  if (completionsSteps === 0) {
    return badInput(
      `${run.path} keeps no ${what}, because its completionsSteps is 0; to keep them, train with --set completionsSteps=10.`,
    );
  }
  return badInput(
    `${run.path} has no ${what} yet: a table is written every ${completionsSteps} steps (completionsSteps), and after each evaluation.`,
  );
}

function nearestSteps(
  run: RunDirectory,
  tables: readonly RunTable[],
  step: number,
  what: string,
): AcoerError {
  const below = tables.filter((table) => table.step < step).at(-1);
  const above = tables.find((table) => table.step > step);
  const near = [below, above].flatMap((table) => (table === undefined ? [] : [table.step]));
  const nearest = near.length === 1 ? `the nearest is ${near[0]}` : `the nearest are ${near.join(' and ')}`;
  return badInput(`${run.path} has no ${what} of step ${step}; ${nearest}.`);
}

/** The tables to look into. @throws BAD_INPUT if there are none */
function wantedTables(run: RunDirectory, completionsSteps: number, wanted: Wanted): RunTable[] {
  const what = wanted.evaluation === true ? 'answers of evaluations' : 'completions';
  const tables = runTables(run.path).filter(({ kind }) => wanted.evaluation !== true || kind !== 'training');
  if (tables.length === 0) throw nothingYet(run, completionsSteps, what);
  if (wanted.problem !== undefined && wanted.step === undefined) return tables;
  const trained = tables.filter(({ kind }) => kind === 'training');
  const step = wanted.step ?? (trained.at(-1) ?? tables.at(-1)!).step;
  const there = tables.filter((table) => table.step === step);
  if (there.length === 0) throw nearestSteps(run, tables, step, what);
  // A problem may be in any of them.
  if (wanted.problem !== undefined) return there;
  const training = there.filter(({ kind }) => kind === 'training');
  return training.length > 0 ? training : there;
}

function matches(row: StoredCompletion, { problem, sample, correct }: Wanted): boolean {
  return (
    (problem === undefined || row.problemId === problem) &&
    (sample === undefined || row.sample === sample) &&
    (correct === undefined || row.correct === correct)
  );
}

function unknownProblem(run: RunDirectory, tables: readonly RunTable[], id: string, ids: Set<string>) {
  const where = tables.length === 1 ? tables[0]!.path : `the tables of ${run.path}`;
  const some = [...ids].slice(0, 3).join(', ');
  return badInput(
    `Problem ${id} is not in ${where}${didYouMean(id, [...ids]) || `; they have ${some}, ...`}`,
  );
}

/** Most of the time to read a table is that of starting its thread, so several are started together. */
const READ_AHEAD = 4;

async function* readAhead(tables: readonly RunTable[]): AsyncGenerator<Selection> {
  const reading: Promise<Selection>[] = [];
  for (let i = 0; i < tables.length; i++) {
    for (const table of tables.slice(i + reading.length, i + READ_AHEAD)) {
      const read = readCompletions(table.path).then((rows) => ({ table, rows }));
      // Whoever takes it out of the queue sees the error; if nobody does, it is of no interest.
      read.catch(() => undefined);
      reading.push(read);
    }
    yield await reading.shift()!;
  }
}

/**
 * The tables with their wanted rows, oldest first, one at a time; a table that lacks a named problem is left out.
 * @throws BAD_INPUT if there is no such step or problem
 */
export async function* selections(
  run: RunDirectory,
  completionsSteps: number,
  wanted: Wanted,
): AsyncGenerator<Selection> {
  const tables = wantedTables(run, completionsSteps, wanted);
  const ids = new Set<string>();
  for await (const { table, rows } of readAhead(tables)) {
    for (const { problemId } of rows) ids.add(problemId);
    if (wanted.problem !== undefined && !rows.some((row) => row.problemId === wanted.problem)) continue;
    yield { table, rows: rows.filter((row) => matches(row, wanted)) };
  }
  if (wanted.problem !== undefined && !ids.has(wanted.problem)) {
    throw unknownProblem(run, tables, wanted.problem, ids);
  }
}

/** The completion of median length: neither the luckiest nor the worst. */
const typical = (rows: readonly StoredCompletion[]): StoredCompletion[] =>
  rows.length === 0 ? [] : [medianItem(rows, ({ totalTokens }) => totalTokens)];

/** One correct and one wrong completion of a problem. */
export const oneOfEach = (rows: readonly StoredCompletion[]): StoredCompletion[] => [
  ...typical(rows.filter(({ correct }) => correct)),
  ...typical(rows.filter(({ correct }) => !correct)),
];

/** One completion of a problem at one of many steps: a correct one if there is any. */
export const oneOf = (rows: readonly StoredCompletion[]): StoredCompletion[] => oneOfEach(rows).slice(0, 1);
