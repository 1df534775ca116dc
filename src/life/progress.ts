/** Keeps progress.json up to date: what a run is doing, from the phases it goes through and its events. */
import type { Phase } from '../config';
import { ProgressFile, type CurrentProgress, type RunDirectory, type RunPhase } from '../run';
import type { RunEvent, TrainEvent } from './events';

/** Grading happens during the generation, and sinks are part of what they are told of. */
const SHOWN: Record<Phase, RunPhase | null> = {
  loading: 'loading',
  baseEvaluation: 'base evaluation',
  generate: 'generate',
  grade: null,
  reward: 'reward',
  score: 'score',
  train: 'train',
  optimizer: 'train',
  evaluation: 'evaluation',
  checkpoint: 'checkpoint',
  sink: null,
};

export type Outcome = Extract<RunPhase, 'finished' | 'interrupted' | 'failed'>;

const NOTHING_SAMPLED = {
  kind: null,
  done: null,
  total: null,
  tokens: null,
  tokensPerSecond: null,
  sequences: [],
};

export class Progress {
  private readonly file: ProgressFile;
  private current: CurrentProgress;

  constructor(directory: RunDirectory, maxSteps: number, warn: (message: string) => void) {
    this.file = new ProgressFile(directory, warn);
    this.current = { phase: 'loading', step: 0, maxSteps, ...NOTHING_SAMPLED };
    this.file.show(this.current, true);
  }

  /** @param step the step in progress, from 1; 0 before the first */
  enter(entered: Phase, step: number): void {
    const phase = SHOWN[entered];
    if (phase === null || (phase === this.current.phase && step === this.current.step)) return;
    this.current = { phase, step, maxSteps: this.current.maxSteps, ...NOTHING_SAMPLED };
    this.file.show(this.current, true);
  }

  event(event: RunEvent): void {
    if (event.type === 'decode-progress') this.sampled(null, event);
    if (event.type === 'eval-progress') this.sampled(event.kind, event);
  }

  private sampled(
    kind: CurrentProgress['kind'],
    {
      done,
      total,
      tokens,
      tokensPerSecond,
      sequences,
    }: TrainEvent & { type: 'decode-progress' | 'eval-progress' },
  ): void {
    this.current = { ...this.current, kind, done, total, tokens, tokensPerSecond, sequences };
    this.file.show(this.current, false);
  }

  /** Says how the run ended; null: its folder goes, so nothing more is written. */
  async end(outcome: Outcome | null): Promise<void> {
    const { maxSteps, step } = this.current;
    await this.file.end(outcome && { phase: outcome, step, maxSteps, ...NOTHING_SAMPLED });
  }
}
