/** What the server of `acoer watch` sends to its page. Imports nothing at run time: it is part of both. */
import type { Mark, ShownCompletion, ShownCompletions } from '../report/shown';
import type { Health } from '../base/types';
import type { WireBuckets } from './buckets';

export type EntryState = 'running' | 'finished' | 'stopped' | 'killed' | 'unreadable';

/** Means over the first and the last steps of a run. */
export interface Change {
  before: number;
  now: number;
}

/** A run as the list shows it. Times are in milliseconds since 1970. */
export interface RunEntry {
  /** Stands for the run in addresses; made of its path. */
  id: string;
  name: string;
  state: EntryState;
  /** When a running run last showed a sign of life, if that is suspiciously long ago. */
  quietSince: number | null;
  step: number;
  /** 0: unknown. */
  maxSteps: number;
  /** From the time of the last steps; null unless the run is training. */
  leftMs: number | null;
  startedAt: number;
  updatedAt: number | null;
  model: string;
  reward: string;
  seed: number | null;
  maxCompletionLength: number | null;
  accuracy: Change | null;
  thinking: Change | null;
  /** Thinking tokens at steps spread over the run, as pairs of step and mean. */
  course: [step: number, thinking: number][];
  health: Health | null;
  rollbacks: number;
  /** One sentence about a damaged file. */
  problem: string | null;
}

export interface LogEntry {
  step: number | null;
  kind: Mark['kind'] | 'evaluation' | 'checkpoint' | 'hang' | 'dump';
  text: string;
}

/** A table of completions. */
export interface WireTable {
  kind: ShownCompletion['from'];
  step: number;
}

/** What a run's page shows besides the figures. */
export interface RunDetails {
  /** The run's folder. */
  path: string;
  marks: Mark[];
  /** Newest first. */
  log: LogEntry[];
  tables: WireTable[];
  /** Sentences about damaged files. */
  problems: string[];
}

/** The details of a run of which nothing else is known. */
export const bareDetails = (path: string, problems: string[]): RunDetails => {
  return { path, marks: [], log: [], tables: [], problems };
};

/** How far a reader has read a run's lines; another epoch means that lines have been taken back. */
export interface Position {
  epoch: string;
  lines: number;
}

/** Lines of metrics in buckets. */
export interface WireSeries extends Position {
  /** The numbers of the last line. */
  latest: Record<string, number>;
  buckets: WireBuckets;
  /** The lines that each rollback took back, in buckets of the same width. */
  discarded: { number: number; buckets: WireBuckets }[];
}

/** Lines that were appended after line `from`, as columns. */
export interface WireLines extends Position {
  id: string;
  from: number;
  steps: number[];
  columns: Record<string, (number | null)[]>;
}

export interface WireSequence {
  problemId: string;
  prompt: number;
  sample: number;
  tokens: number;
}

export interface WireProgress {
  id: string;
  /** null: nothing is being made. */
  progress: {
    phase: string;
    step: number;
    /** The kind of evaluation; null in other phases. */
    kind: 'greedy' | 'sampled' | null;
    /** null: nothing is sampled. */
    done: number | null;
    total: number | null;
    tokens: number | null;
    tokensPerSecond: number | null;
    sequences: WireSequence[];
  } | null;
}

/** Changes of the list; the first one after connecting has every run. */
export interface WireRuns {
  changed: RunEntry[];
  removed: string[];
  /** The served path is a run rather than a folder of runs. */
  single: boolean;
  /** Sentences about the folder. */
  notes: string[];
}

export interface WireTableRows extends ShownCompletions {
  /** Rows of the table, of which the first ones are here. */
  total: number;
}

/** Names of the server-sent events and their data. */
export interface WireEvents {
  runs: WireRuns;
  lines: WireLines;
  details: { id: string; details: RunDetails };
  progress: WireProgress;
  /** The run's lines must be fetched again. */
  reload: { id: string };
  /** A sign that the connection is alive. */
  beat: { at: number };
  /** The server is about to end. */
  bye: Record<string, never>;
}
