/** What both pages show: imports nothing at run time, as it is part of them. */
import type { ColumnValue, Health, VerdictStatus } from '../base/types';

/** What happened at a single step of a run, drawn on every time axis. */
export interface Mark {
  step: number;
  kind: Health | 'rollback' | 'refused';
  /** One sentence. */
  text: string;
}

/** A completion as the page gets it. Problems are in a list of their own, because many share one. */
export interface ShownCompletion {
  /** Index of its run in the report. */
  run: number;
  step: number;
  from: 'training' | 'greedy' | 'sampled';
  /** Index in `problems`. */
  problem: number;
  text: string;
  /** The prompt ended inside `<think>`. */
  thinkOpened: boolean;
  extracted: string | null;
  correct: boolean;
  status: VerdictStatus;
  thinkingTokens: number;
  totalTokens: number;
  /** Null in evaluations. */
  reward: number | null;
  parts: Record<string, number>;
  advantage: number | null;
  /** What rewards noted of it. */
  columns: Readonly<Record<string, ColumnValue>>;
  finish: 'stop' | 'length' | 'cancelled';
}

export interface ShownProblem {
  id: string;
  level: string | null;
  prompt: string;
  /** null if there is none. */
  gold: string | null;
}

export interface ShownCompletions {
  runs: string[];
  problems: ShownProblem[];
  completions: ShownCompletion[];
}
