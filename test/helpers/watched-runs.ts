/** Run folders to watch: written by the tests instead of by a training run, so that they can be long and odd. */
import { appendFileSync, mkdirSync, mkdtempSync, renameSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { FIGURE_METRICS } from '../../src/report/figures';
import { METRICS } from '../../src/base/metric-names';
import type { StepMetrics } from '../../src/base/types';
import { uniform } from './synthetic-runs';

export const watchedFolder = (): string => mkdtempSync(join(tmpdir(), 'acoer-watch-'));

/** The value of a metric at a share of the run, with noise from 0 to 1. */
type Course = (share: number, noise: number) => number;

/** Numbers that fall with the steps, and vary. */
function courseOf(metric: string): Course {
  const { unit } = METRICS[metric as keyof typeof METRICS];
  if (unit === 'fraction') return (share, noise) => Math.min(1, 0.55 + 0.25 * share + 0.2 * noise);
  if (unit === 'tokens') return (share, noise) => 360 - 250 * share + 80 * noise;
  if (unit === 'bytes') return (_, noise) => 5e8 + 1e7 * noise;
  return (share, noise) => 1 - 0.5 * share + 0.3 * noise;
}

const COURSES = FIGURE_METRICS.filter((metric) => !metric.startsWith('eval/')).map(
  (metric) => [metric, courseOf(metric)] as const,
);

/** A line with every metric that the figures show, as long as a real one. */
export function watchedLine(step: number, total: number, noise: () => number): StepMetrics {
  const values = COURSES.map(([metric, course]) => [metric, course(step / total, noise())]);
  const evaluated =
    step % 200 === 0
      ? { 'eval/greedy_accuracy': 0.8, 'eval/greedy_thinking_tokens': 400 - (250 * step) / total }
      : {};
  return {
    step,
    ...(Object.fromEntries(values) as StepMetrics),
    ...evaluated,
    step_time: 0.5,
    update_applied: 1,
    'monitor/state': 0,
  };
}

export interface WatchedRun {
  steps?: number;
  maxSteps?: number;
  seed?: number;
  /** Held: this process has the lock, as if it were training. Left: a process that is gone has. */
  lock?: 'held' | 'left' | 'free';
  summary?: boolean;
  config?: Record<string, unknown>;
}

export const linesText = (lines: readonly StepMetrics[]): string =>
  lines.map((line) => `${JSON.stringify(line)}\n`).join('');

/** Lines of steps `from` to `to`. */
export function watchedLines(from: number, to: number, total: number, seed = 1): StepMetrics[] {
  const noise = uniform(seed * 7919 + from);
  return Array.from({ length: to - from + 1 }, (_, i) => watchedLine(from + i, total, noise));
}

export function writeLock(path: string, pid: number): void {
  const owner = { pid, host: hostname(), startTicks: '1', boot: 'none', since: new Date().toISOString() };
  writeFileSync(join(path, 'lock.json'), JSON.stringify(owner));
}

/** Writes a run's folder. */
export function writeRun(path: string, run: WatchedRun = {}): void {
  const { steps = 50, maxSteps = 100, seed = 1, lock = 'free', summary = false, config = {} } = run;
  mkdirSync(join(path, 'completions'), { recursive: true });
  const settings = { model: 'tiny', reward: 'acoer', maxSteps, seed, maxCompletionLength: 256, ...config };
  writeFileSync(join(path, 'config.json'), JSON.stringify(settings));
  writeFileSync(join(path, 'metrics.jsonl'), linesText(watchedLines(1, steps, maxSteps, seed)));
  if (summary) writeFileSync(join(path, 'summary.json'), JSON.stringify({ run: { steps: maxSteps } }));
  if (lock === 'left') writeLock(path, 999_999_999);
}

export const appendLines = (path: string, lines: readonly StepMetrics[]): void =>
  appendFileSync(join(path, 'metrics.jsonl'), linesText(lines));

/** Replaces the lines by a rename, as a resumed run does. */
export function replaceLines(path: string, lines: readonly StepMetrics[]): void {
  const temporary = join(path, '.tmp-metrics');
  writeFileSync(temporary, linesText(lines));
  renameSync(temporary, join(path, 'metrics.jsonl'));
}

/** What a rollback leaves: the lines it took back, its entry, and the lines before it. */
export function rollBack(path: string, from: number, to: number, total: number, seed = 1): void {
  const all = watchedLines(1, from, total, seed);
  writeFileSync(join(path, 'rolled-back-1.jsonl'), linesText(all.filter(({ step }) => step! > to)));
  const reason = 'Accuracy fell from its peak.';
  const entry = { number: 1, from, to, pressure: 0.5, reason, done: true };
  writeFileSync(join(path, 'rollbacks.json'), JSON.stringify([entry]));
  replaceLines(path, all.slice(0, to));
}
