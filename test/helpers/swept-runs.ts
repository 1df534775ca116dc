/** Sweeps to report on, written by the tests instead of trained, and numbers of runs whose truth is known. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { summarise } from '../../src/eval';
import { makeRollout, namedPrompt } from '../../src/lab/rollouts';
import { readMetrics, RunDirectory, writeAnswers, type TabledCompletion } from '../../src/run';
import type { Sweep } from '../../src/sweep/folder';
import { linesText, writeRun } from './watched-runs';
import { normalsOf, streamSeed, uniformStream } from '../../src/base/rng';
import type { SeedRows } from '../../src/sweep/statistics';

/** Runs of `seeds` on `problems` whose expected value, over all seeds and problems, is `mean`. */
export function drawnRuns(
  key: number,
  mean: number,
  seeds: number,
  problems: number,
  seedStd: number,
): SeedRows {
  const normal = normalsOf(uniformStream(streamSeed(key, 'coverage')));
  const hardness = Array.from({ length: problems }, normal);
  return Array.from({ length: seeds }, () => {
    const own = seedStd * normal();
    return Float64Array.from(hardness, (hard) => mean + own + hard + 1.5 * normal());
  });
}

export interface SweptRun {
  method: string;
  seed: number;
  reward?: string;
  state?: 'waiting' | 'running' | 'done' | 'failed' | 'skipped';
  message?: string;
  /** Accuracy (0..1) and mean thinking tokens of each evaluation, by step; 0 is the base model. */
  course?: Record<number, readonly [accuracy: number, thinking: number]>;
  /** First step at which the guard saw a collapse. */
  guardAt?: number;
  /** Answers are kept. Default: true. */
  answers?: boolean;
  config?: Record<string, unknown>;
  point?: Record<string, unknown>;
}

const LEVELS = ['1', '2', '3'];

/** Answers to the same problems in every run: hard problems are wrong first, and think longer. */
function answersOf(
  run: SweptRun,
  step: number,
  problems: number,
  joined: readonly string[],
): TabledCompletion[] {
  const [accuracy, thinking] = run.course![step]!;
  const own = uniformStream(streamSeed(run.seed, run.method.slice(0, 1), step));
  const shared = uniformStream(streamSeed(0, 'hardness'));
  return Array.from({ length: problems }, (_, index) => {
    const hardness = shared();
    const correct = 0.7 * hardness + 0.3 * own() < accuracy * 0.95;
    const tokens = Math.max(1, Math.round(thinking * (0.6 + 0.8 * hardness + 0.05 * (own() - 0.5))));
    const part = joined.length === 0 ? '' : `${joined[index % joined.length]}/`;
    const prompt = namedPrompt(`${part}p${index}`, index, 'What is 1+1?', '2', LEVELS[index % LEVELS.length]);
    return { ...makeRollout(prompt, 0, correct, tokens, tokens + 20), text: 'It is \\boxed{2}.' };
  });
}

const evaluationOf = (rows: readonly TabledCompletion[]) => ({
  ...summarise(rows.map((row) => ({ ...row, level: row.prompt.problem.level, truncated: false }))),
  solved: rows.map(({ verdict }) => (verdict.correct ? '1' : '0')).join(''),
});

const DEFAULT_COURSE = { 0: [0.8, 400], 200: [0.8, 300], 400: [0.8, 200], 600: [0.8, 150] } as const;

async function writeSweptRun(path: string, given: SweptRun, problems: number): Promise<void> {
  const run = { course: DEFAULT_COURSE, answers: true, ...given };
  const steps = Object.keys(run.course)
    .map(Number)
    .sort((a, b) => a - b);
  const last = steps.at(-1)!;
  const evalDataset = String(run.config?.evalDataset ?? 'math500');
  const config = { reward: run.reward ?? 'acoer', evalDataset, ...run.config };
  writeRun(path, { steps: last, maxSteps: last, seed: run.seed, summary: false, config });
  const directory = new RunDirectory(path);
  const joined = evalDataset.includes(' + ') ? evalDataset.split(' + ') : [];
  const answers = new Map(steps.map((step) => [step, answersOf(run, step, problems, joined)]));
  const evaluations = new Map([...answers].map(([step, rows]) => [step, evaluationOf(rows)]));
  if (run.answers)
    for (const [step, rows] of answers) await writeAnswers(directory.answers(step, 'greedy'), step, rows);
  const lines = readMetrics(directory.metrics()).map((line) => {
    const found = evaluations.get(line.step!);
    const state = run.guardAt !== undefined && line.step! >= run.guardAt ? 2 : 0;
    return {
      ...Object.fromEntries(Object.entries(line).filter(([name]) => !name.startsWith('eval/'))),
      'monitor/state': state,
      ...(found !== undefined && {
        'eval/greedy_accuracy': found.accuracy,
        'eval/greedy_thinking_tokens': found.thinkingTokens,
        'eval/greedy_total_tokens': found.totalTokens,
      }),
    };
  });
  writeFileSync(directory.metrics(), linesText(lines));
  if ((run.state ?? 'done') !== 'done') return;
  const of = { directory: path, reward: 'acoer', seed: run.seed, steps: last, best: null, rollbacks: 0 };
  const side = (step: number) => ({ greedy: evaluations.get(step), sampled: null });
  writeFileSync(directory.summary(), JSON.stringify({ base: side(0), trained: side(last), run: of }));
}

/** Writes the folder of a sweep. @returns its path */
export async function writeSweep(path: string, runs: readonly SweptRun[], problems = 60): Promise<string> {
  const folderOf = ({ method, seed }: SweptRun) => `runs/${method.replaceAll(' ', '-')}-s${seed}`;
  for (const run of runs) {
    if ((run.state ?? 'done') !== 'waiting') await writeSweptRun(join(path, folderOf(run)), run, problems);
  }
  mkdirSync(path, { recursive: true });
  const ended = (run: SweptRun) => ['done', 'failed'].includes(run.state ?? 'done');
  const sweep: Sweep = {
    version: 1,
    name: 'swept',
    made: '2026-01-02T03:04:05.000Z',
    evaluation: { kind: 'greedy' },
    taken: null,
    runs: runs.map((run) => ({
      folder: folderOf(run),
      method: run.method,
      seed: run.seed,
      point: run.point ?? {},
      settings: { reward: run.reward ?? 'acoer' },
      hash: '0'.repeat(64),
      state: run.state ?? 'done',
      exitCode: ended(run) ? (run.state === 'failed' ? 1 : 0) : null,
      startedAt: null,
      endedAt: null,
      collapsed: run.guardAt !== undefined,
      message: run.message ?? null,
    })),
  };
  writeFileSync(join(path, 'sweep.json'), JSON.stringify(sweep));
  return path;
}
