/** What is known of a run in progress, gathered from its events. */
import { HEALTH, type Health } from '../../base/types';
import type { EvalPhase, TrainEvent } from '../../train';
import type { KnownMetrics } from '../../base/metric-names';
import { remainingMs, type TimedStep } from './remaining';

export const EVALUATED: Readonly<Record<EvalPhase, string>> = {
  base: 'base model',
  step: 'model so far',
  trained: 'trained model',
};

/** A finished step; null is a number that a refused step does not have. */
interface Step extends TimedStep {
  index: number;
  accuracy: number | null;
  thinking: number | null;
}

/** What is being worked on. */
export type Activity =
  | { doing: 'loading' | 'updating' }
  | { doing: 'decoding'; done: number; total: number; tokens: number; tokensPerSecond: number }
  | { doing: 'evaluating'; phase: EvalPhase; kind: string; done: number; total: number };

const presentNumbers = (values: readonly (number | null)[]) =>
  values.filter((value): value is number => value !== null);

export class ProgressState {
  maxSteps = 0;
  alpha: number | null = null;
  budget: number | null = null;
  health: Health | null = null;
  activity: Activity = { doing: 'loading' };
  /** Milliseconds for the steps that are left, as estimated when the last one ended. */
  leftMs: number | null = null;
  private steps: Step[] = [];
  private begunAt: number;
  private lastStepAt: number;

  constructor(private readonly now: () => number) {
    this.begunAt = this.lastStepAt = now();
  }

  /** Steps made, in this process or before it. */
  get step(): number {
    return this.steps.at(-1)?.index ?? 0;
  }

  get elapsedMs(): number {
    return this.now() - this.begunAt;
  }

  /** `leftMs` less what has passed of the step in progress; null before the first step. */
  get leftNowMs(): number | null {
    return this.leftMs === null ? null : Math.max(0, this.leftMs - (this.now() - this.lastStepAt));
  }

  get accuracies(): number[] {
    return presentNumbers(this.steps.map(({ accuracy }) => accuracy));
  }

  get thinking(): number[] {
    return presentNumbers(this.steps.map(({ thinking }) => thinking));
  }

  /** @param recorded the lines of the steps made before this process */
  begin(maxSteps: number, recorded: readonly KnownMetrics[]): void {
    this.maxSteps = maxSteps;
    for (const metrics of recorded) this.add(metrics.step ?? this.step + 1, metrics, 0);
  }

  observe(event: TrainEvent): void {
    if (event.type === 'eval-progress') this.activity = { ...event, doing: 'evaluating' };
    else if (event.type === 'decode-progress') this.decoding(event);
    else if (event.type === 'step') this.made(event);
    else if (event.type === 'rollback') this.rewind(event.rollback.to);
    // The time of what is no step must not count as a step's.
    else if (event.type === 'loaded' || event.type === 'evaluated') this.lastStepAt = this.now();
  }

  private made({ index, metrics }: TrainEvent & { type: 'step' }): void {
    this.add(index, metrics, this.now() - this.lastStepAt);
    this.lastStepAt = this.now();
    this.leftMs = remainingMs(this.steps, this.maxSteps - index);
  }

  private rewind(step: number): void {
    this.steps = this.steps.filter(({ index }) => index <= step);
    this.leftMs = remainingMs(this.steps, this.maxSteps - step);
    this.lastStepAt = this.now();
  }

  private decoding(event: TrainEvent & { type: 'decode-progress' }): void {
    this.activity = { ...event, doing: event.done < event.total ? 'decoding' : 'updating' };
  }

  private add(index: number, metrics: KnownMetrics, measuredMs: number): void {
    this.steps.push({
      index,
      ms: metrics.step_time === undefined ? measuredMs : 1000 * metrics.step_time,
      tokens: metrics['completions/mean_length'] ?? null,
      accuracy: metrics['accuracy/mean'] ?? null,
      thinking: metrics['thinking/mean'] ?? null,
    });
    this.alpha = metrics['acoer/alpha'] ?? this.alpha;
    this.budget = metrics['acoer/budget'] ?? this.budget;
    const state = metrics['monitor/state'];
    if (state !== undefined) this.health = HEALTH[state] ?? null;
  }
}
