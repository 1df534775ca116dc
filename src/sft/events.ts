/** What a supervised run tells while it goes on, and what it comes to. */
import type { ModelFetchOptions } from '../models';
import type { StepMetrics } from '../types';

/** `summary.json`, the last file that a run writes. */
export interface SftSummary {
  run: { directory: string; method: 'sft'; full: boolean; seed: number; steps: number; examples: number };
  /** Mean negative log-likelihood of a completion token in the first and the last update. */
  loss: { first: number; last: number };
  numTokens: number;
}

type FetchProgress = Parameters<NonNullable<ModelFetchOptions['onProgress']>>[0];

export type SftEvent =
  /** Rows are turned into token ids, which takes minutes for many long ones. At most once a second. */
  | { type: 'encoding'; done: number; total: number }
  | { type: 'run'; directory: string; resumedStep: number | null; examples: number; steps: number }
  | { type: 'loaded'; model: string; parameters: number; trained: number; device: string; dtype: string }
  | { type: 'step'; step: number; metrics: StepMetrics }
  | { type: 'checkpoint'; step: number; path: string }
  | ({ type: 'download' } & FetchProgress)
  | { type: 'warning'; message: string }
  | { type: 'finished'; summary: SftSummary };
