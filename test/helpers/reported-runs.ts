/** Whole run folders to report on: metrics, tables of completions, evaluations and a summary. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { summarise } from '../../src/eval';
import { makeRollout, namedPrompt } from '../../src/lab/rollouts';
import { RunDirectory, writeAnswers, writeCompletions, type TabledCompletion } from '../../src/run';
import { uniform } from './synthetic-runs';
import { writeRun, type WatchedRun } from './watched-runs';

export interface ReportedRun extends WatchedRun {
  /** Steps between tables of completions. */
  tableSteps?: number;
  problems?: number;
  /** Problems per 100 that the trained model solves. */
  accuracy?: number;
  /** Mean thinking tokens after training; 400 before. */
  thinking?: number;
  /** Words of a completion. */
  words?: number;
  /** The text of every completion and problem. */
  text?: string;
  problemId?: (index: number) => string;
}

const LEVELS = ['1', '2', '3', '4', '5'];

function answer(index: number, correct: boolean, thinkingTokens: number, run: ReportedRun) {
  const { words = 20, text, problemId = (i: number) => `p${i}` } = run;
  const question = text ?? `What is $${index}+1$?`;
  const prompt = namedPrompt(problemId(index), index, question, String(index + 1), LEVELS[index % 5]);
  const thoughts = Array.from({ length: words }, (_, i) => `line ${(i * 7 + index) % 97}`);
  const kept = thoughts.slice(0, Math.max(1, Math.round((words * thinkingTokens) / 400)));
  return {
    ...makeRollout(prompt, 0, correct, thinkingTokens, thinkingTokens + 20),
    text:
      text ??
      `<think>\n${kept.join('\n')}\n</think>\n\nIt is $\\frac{${index + 1}}{1}$: \\boxed{${index + 1}}`,
  };
}

/** Answers to the first problems by a model of that accuracy and length. */
function answersOf(
  run: ReportedRun,
  step: number,
  percentCorrect: number,
  thinking: number,
): TabledCompletion[] {
  const { problems = 40, seed = 1 } = run;
  const noise = uniform(seed * 31 + step);
  return Array.from({ length: problems }, (_, index) =>
    answer(index, noise() * 100 < percentCorrect, Math.round(thinking * (0.5 + noise())), run),
  );
}

const rowOf = (row: TabledCompletion) => ({ ...row, level: row.prompt.problem.level, truncated: false });

/** Writes the folder of a run that ended at `maxSteps` unless `summary` is false. */
export async function writeReportedRun(path: string, run: ReportedRun = {}): Promise<void> {
  const {
    steps = 60,
    maxSteps = steps,
    tableSteps = 10,
    accuracy = 90,
    thinking = 150,
    summary = true,
  } = run;
  writeRun(path, { ...run, steps, maxSteps, summary: false });
  const directory = new RunDirectory(path);
  for (let step = tableSteps; step <= steps; step += tableSteps) {
    const rows = answersOf(run, step, accuracy, 400 - ((400 - thinking) * step) / maxSteps);
    const scored = rows.map((rollout) => {
      const total = rollout.verdict.correct ? 1.25 : 0;
      return {
        rollout: rollout as never,
        reward: { total, parts: { acoer: total } },
        advantage: total - 0.5,
      };
    });
    await writeCompletions(directory.completions(step), step, scored);
  }
  const base = answersOf(run, 0, 70, 400);
  const trained = answersOf(run, steps, accuracy, thinking);
  await writeAnswers(directory.answers(0, 'sampled'), 0, base);
  await writeAnswers(directory.answers(steps, 'sampled'), steps, trained);
  if (!summary) return;
  const evaluation = (rows: TabledCompletion[]) => ({
    greedy: null,
    sampled: {
      ...summarise(rows.map(rowOf)),
      solved: rows.map(({ verdict }) => (verdict.correct ? '1' : '0')).join(''),
    },
  });
  const of = {
    directory: path,
    reward: 'acoer',
    seed: run.seed ?? 1,
    steps: maxSteps,
    best: null,
    rollbacks: 0,
  };
  const content = { base: evaluation(base), trained: evaluation(trained), run: of };
  writeFileSync(join(path, 'summary.json'), JSON.stringify(content));
}
