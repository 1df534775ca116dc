/** The folders of `acoer eval`, which belong to a sweep when they are in its `evals/` or are named with it. */
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { z } from 'zod';
import { badInput } from '../base/errors';
import { storedRow } from '../eval';
import { checked, evaluationRows, readJsonFile, recordOf, type AnswerNumbers } from '../run';
import { answeredProblems, measuredOf, type Measured } from './measured';

/** Where a sweep's report looks for them. */
const EVALS = 'evals';
const SUMMARY = 'summary.json';

const number = z
  .number()
  .nullable()
  .transform((value) => value ?? NaN);
const interval = z.object({ low: number, high: number });

const ENTRY = z.looseObject({
  label: z.string(),
  benchmark: z.string(),
  problems: z.int().min(1),
  n: z.int().min(1),
  temperature: z.number(),
  accuracy: z.number(),
  thinkingTokens: number,
  totalTokens: number,
  accuracyPer1kTokens: number,
  intervals: z.looseObject({
    accuracy: interval,
    thinkingTokens: interval,
    totalTokens: interval,
    accuracyPer1kTokens: interval,
  }),
  atK: z.array(z.object({ k: z.int(), pass: z.number(), majority: z.number() })),
  run: z.string().optional(),
  step: z.int().optional(),
});

/** One model on one benchmark. */
export interface Evaluated extends z.output<typeof ENTRY> {
  /** Name of the folder of the run that it is a checkpoint of; null: it is none of a run. */
  runName: string | null;
  measured: Measured;
}

/** Whether `path` is the folder of a finished `acoer eval`. */
export const isEvalFolder = (path: string): boolean =>
  existsSync(join(path, SUMMARY)) && !existsSync(join(path, 'config.json'));

/** The folders in the sweep's `evals/`, in order of name. */
export function evalFoldersOf(sweepPath: string): string[] {
  const folder = join(sweepPath, EVALS);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .sort()
    .map((name) => join(folder, name))
    .filter(isEvalFolder);
}

async function answersOf(completions: string): Promise<AnswerNumbers[]> {
  const record = recordOf(completions);
  if (record === null)
    throw badInput(`${completions} has no file of settings beside it; copy the .json of that name there.`);
  const rows: AnswerNumbers[] = [];
  for await (const { values, where } of evaluationRows(completions, record)) {
    const row = storedRow(values, where);
    rows.push({ ...row, promptIndex: row.index, correct: row.verdict.correct });
  }
  return rows;
}

/** @throws BAD_INPUT naming the file that is missing or damaged */
export async function readEvalFolder(path: string): Promise<Evaluated[]> {
  const file = join(path, SUMMARY);
  const entries = checked(z.array(ENTRY).min(1), file, readJsonFile(file));
  const read: Evaluated[] = [];
  for (const entry of entries) {
    // As named when it was made, from another folder perhaps.
    const completions = join(path, `${entry.label}.${entry.benchmark}.jsonl`);
    const step = entry.step ?? 0;
    const { accuracy, thinkingTokens, totalTokens } = entry;
    const problems = existsSync(completions) ? answeredProblems(await answersOf(completions)) : null;
    const measured = problems === null ? null : measuredOf(step, problems);
    read.push({
      ...entry,
      runName: entry.run === undefined ? null : basename(entry.run),
      measured: measured ?? { step, n: entry.problems, accuracy, thinkingTokens, totalTokens, problems },
    });
  }
  return read;
}
