/** progress.json: what a run in progress is doing at the moment. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isRecord } from '../json';

export interface RunProgress {
  /** ISO time. */
  updatedAt: string;
  pid: number;
  phase: string;
  step: number;
  maxSteps: number;
  /** Of an evaluation. */
  kind: 'greedy' | 'sampled' | null;
  /** null in phases that sample nothing. */
  done: number | null;
  total: number | null;
  tokens: number | null;
  tokensPerSecond: number | null;
  sequences: { problemId: string; prompt: number; sample: number; tokens: number }[];
}

/** null: there is none, or it is being written. @param directory the run's folder */
export function readProgress(directory: string): RunProgress | null {
  try {
    const value: unknown = JSON.parse(readFileSync(join(directory, 'progress.json'), 'utf8'));
    return isRecord(value) && Array.isArray(value.sequences) ? (value as unknown as RunProgress) : null;
  } catch {
    return null;
  }
}
