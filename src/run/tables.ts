/** The tables of completions that a run has written so far, of training and of evaluations. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** What the completions of a table were made for. */
export type TableKind = 'training' | EvaluationKind;
export type EvaluationKind = 'greedy' | 'sampled';

export interface RunTable {
  path: string;
  /** Step of the run; for an evaluation, the last step before it, 0 for the base model. */
  step: number;
  kind: TableKind;
}

/** At the same step the evaluation comes after the training. */
const KINDS: readonly TableKind[] = ['training', 'greedy', 'sampled'];

/** A table that is being written has another name until it is whole. */
const NAME = /^step-(\d{6,})(?:-(greedy|sampled))?\.parquet$/;

function tablesIn(folder: string, of: (kind: string | undefined) => TableKind | null): RunTable[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const match = NAME.exec(name);
    const kind = match === null ? null : of(match[2]);
    return kind === null ? [] : [{ path: join(folder, name), step: Number(match![1]), kind }];
  });
}

/** The tables in the order in which they were made. */
export function runTables(runPath: string): RunTable[] {
  const training = tablesIn(join(runPath, 'completions'), (kind) => (kind === undefined ? 'training' : null));
  const evaluations = tablesIn(join(runPath, 'evaluations'), (kind) => (kind as TableKind) ?? null);
  return [...training, ...evaluations].sort(
    (a, b) => a.step - b.step || KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind),
  );
}
